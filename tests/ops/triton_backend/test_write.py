"""The write's kernels equal the oracle on values and all gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mooring.ops import SlotState
from support import (
    Ragged,
    assert_close,
    assert_finite,
    assert_same,
    assert_same_in_halves,
    ragged,
    with_gradients,
)

from cases import WEIGHTS, WRITE_FORMS, log_weight, write_inputs  # isort: skip
from functions import FEW, MIXED, oracle_write, places, write  # isort: skip

Kernels = Callable[..., Any]
SINGLE = torch.float32


def compare(kernels: Kernels, batch: Ragged, *inputs: Tensor, key_is_value: bool = False) -> None:
    def fast(query: Tensor, key: Tensor, *rest: Tensor) -> SlotState:
        value, rest = (None, rest) if key_is_value else (rest[0], rest[1:])
        return write(kernels, batch, query, key, value, *rest)

    def slow(query: Tensor, key: Tensor, *rest: Tensor) -> SlotState:
        return oracle_write(batch, query, key, *((key, *rest) if key_is_value else rest))

    assert_same(fast, slow, *inputs)


@settings(max_examples=6)
@given(ragged(max_graphs=4, max_size=40), st.sampled_from(sorted(WRITE_FORMS)))
def test_equals_the_oracle_on_any_batch(kernels: Kernels, batch: Ragged, form: str) -> None:
    compare(kernels, batch, *write_inputs(batch, form, SINGLE), key_is_value=WRITE_FORMS[form][1] is None)


@pytest.mark.parametrize("form", WRITE_FORMS)
@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
def test_equals_the_oracle(kernels: Kernels, form: str, ordered: bool) -> None:
    batch = Ragged(FEW, ordered, seed=3)
    weight = batch.randn(batch.num_nodes, dtype=SINGLE, salt=5)
    inputs = [*write_inputs(batch, form, SINGLE), weight]
    compare(kernels, batch, *inputs, key_is_value=WRITE_FORMS[form][1] is None)


def test_equals_the_oracle_on_graphs_of_several_chunks(kernels: Kernels) -> None:
    batch = Ragged(MIXED, False, seed=4)
    compare(kernels, batch, *write_inputs(batch, "shared", SINGLE))


# The last two have more rows than one tile: blocks of rows, with and without keys of their own.
@pytest.mark.parametrize(
    ("slots", "heads", "own", "dim", "rows"),
    [
        (1, 1, 1, 8, 64),
        (1, 4, 4, 33, 64),
        (16, 4, 1, 16, 64),
        (3, 4, 1, 33, 64),
        (2, 1, 1, 200, 64),
        (19, 1, 1, 8, 16),
        (9, 2, 1, 16, 16),
    ],
)
@pytest.mark.parametrize("weights", ["of nodes", "of slots and heads"])
def test_slots_heads_and_widths(
    kernels: Kernels, slots: int, heads: int, own: int, dim: int, rows: int, weights: str
) -> None:
    batch = Ragged((2, 0, 33) if rows == 16 else (2, 0, 17), False, seed=slots)
    shape = (batch.num_nodes,) if weights == "of nodes" else (batch.num_nodes, slots, heads)
    query, key = batch.randn(slots, heads, dim, dtype=SINGLE, salt=1), batch.randn(batch.num_nodes, own, dim, salt=2)
    value, weight = batch.randn(batch.num_nodes, own, dim, salt=3), batch.randn(*shape, salt=4)

    def call(*arguments: Any, **keywords: Any) -> Any:
        return kernels(*arguments, settings={"ROWS": rows}, **keywords)

    compare(call, batch, query, key.to(SINGLE) / dim**0.5, value.to(SINGLE), weight.to(SINGLE))


@pytest.mark.parametrize("weights", [kind for kind in WEIGHTS if "inf" in kind])
@pytest.mark.parametrize("form", ["shared", "separate heads"])
def test_nodes_of_weight_zero_have_no_influence_even_if_nan(kernels: Kernels, form: str, weights: str) -> None:
    batch = Ragged(FEW, False, seed=5)
    query, key, value = write_inputs(batch, form, SINGLE)
    weight = log_weight(batch, weights, SINGLE)
    assert weight is not None
    gone = weight.isneginf()[:, None, None]
    spoilt_key, spoilt_value = key.masked_fill(gone, float("nan")), value.masked_fill(gone, float("nan"))
    outputs, grads = with_gradients(lambda *tensors: write(kernels, batch, *tensors), query, key, value, weight)
    slow, slow_grads = with_gradients(lambda q, k, v: oracle_write(batch, q, k, v, weight), query, key, value)
    spoilt = (query, spoilt_key, spoilt_value, *places(batch), weight)
    *state, top, rest = kernels("write_forward", *spoilt)
    incoming = [torch.ones_like(entry) for entry in state]
    spoilt_grads = kernels("write_backward", *incoming, *spoilt, state[0], top, rest)
    clean_grads = kernels("write_backward", *incoming, query, key, value, *places(batch), weight, outputs[0], top, rest)
    for one, other in zip(outputs, slow, strict=True):
        assert_close(one, other)
    for one, other in zip(grads[:3], slow_grads, strict=True):
        assert_close(one, other)
    for one, other in zip((*state, *spoilt_grads), (*outputs, *clean_grads), strict=True):
        assert torch.equal(one, other)
    assert_finite(*spoilt_grads)


def test_nodes_behind_the_last_graph_are_excluded(kernels: Kernels) -> None:
    batch = Ragged(MIXED, False, seed=6)
    where = batch.mask(salt=7)
    query, key, value = write_inputs(batch, "separate heads", SINGLE)
    key, value = (tensor.masked_fill(~where[:, None, None], float("nan")) for tensor in (key, value))
    inputs = (query, key, value, *places(batch, where), None)
    *state, top, rest = kernels("write_forward", *inputs)
    kept = Ragged(tuple(torch.bincount(batch.index()[where], minlength=batch.num_graphs).tolist()), True, seed=6)
    order = batch.index()[where].argsort(stable=True)
    incoming = [torch.ones_like(entry) for entry in state]
    key_grad, value_grad = kernels("write_backward", *incoming, *inputs, state[0], top, rest)[1:3]
    for one, other in zip(state, oracle_write(kept, query, key[where][order], value[where][order]), strict=True):
        assert_close(one, other)
    assert not key_grad[~where].any()
    assert not value_grad[~where].any()
    assert bool(value_grad[where].any(dim=-1).all())


def test_huge_logits(kernels: Kernels) -> None:
    batch = Ragged(FEW, True, seed=8)
    query, key, value = write_inputs(batch, "shared", SINGLE)
    signs = batch.randn(batch.num_nodes, dtype=SINGLE, salt=9).sign() * 1e4
    # Whole numbers: the scores are exact, and so are their differences.
    inputs = (query.sign(), (4 * key).round(), value, signs)
    state, grads = with_gradients(lambda *tensors: write(kernels, batch, *tensors), *inputs)
    slow_state, slow_grads = with_gradients(lambda *tensors: oracle_write(batch, *tensors), *inputs)
    for one, other in zip(state, slow_state, strict=True):
        assert_close(one, other)
    for one, other in zip(grads, slow_grads, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("form", ["shared", "separate heads"])
def test_half_inputs_have_single_statistics(kernels: Kernels, form: str, dtype: torch.dtype) -> None:
    batch = Ragged(FEW, False, seed=9)
    inputs = write_inputs(batch, form, dtype)
    assert_same_in_halves(
        lambda *tensors: write(kernels, batch, *tensors), lambda *tensors: oracle_write(batch, *tensors), *inputs
    )


@pytest.mark.parametrize("sizes", [(0, 0), (0,)], ids=str)
def test_nothing_written(kernels: Kernels, sizes: tuple[int, ...]) -> None:
    batch = Ragged(sizes, True, seed=1)
    query, key, value = write_inputs(batch, "shared", SINGLE)
    (content, log_mass), (grad_query, *_) = with_gradients(
        lambda *tensors: write(kernels, batch, *tensors), query, key, value
    )
    assert not content.any()
    assert bool(log_mass.isneginf().all())
    assert not grad_query.any()


def test_control_a_wrong_write_fails(kernels: Kernels) -> None:
    """Control: a write that ignores the last node of every batch."""
    batch = Ragged(FEW, True, seed=3)
    query, key, value = write_inputs(batch, "shared", SINGLE)
    weight = torch.zeros(batch.num_nodes).index_fill(0, torch.tensor([batch.num_nodes - 1]), float("-inf"))
    with pytest.raises(AssertionError):
        assert_same(
            lambda *tensors: write(kernels, batch, *tensors, weight),
            lambda *tensors: oracle_write(batch, *tensors),
            query, key, value,
        )  # fmt: skip
