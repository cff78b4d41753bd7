"""The read's kernels equal the oracle on values and all gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mooring.ops import reference
from support import TOLERANCE, Ragged, assert_close, assert_same, assert_same_in_halves, ragged, with_gradients

from cases import READ_FORMS, read_inputs  # isort: skip
from functions import FEW, MIXED, places, read  # isort: skip

Kernels = Callable[..., Any]
SINGLE = torch.float32


def readers(kernels: Kernels, batch: Ragged, summed: bool) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return kernels and oracle as functions of query, key and value; shared keys get a graphs axis of size one."""

    def fast(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return read(kernels, batch, query, key if key.dim() == 4 else key.unsqueeze(0), value, sum_heads=summed)

    def slow(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context = reference.read(query, key, value, batch.index())
        return context.sum(dim=1, keepdim=True) if summed else context

    return fast, slow


@settings(max_examples=6)
@given(ragged(max_graphs=4, max_size=40), st.sampled_from(sorted(READ_FORMS)))
def test_equals_the_oracle_on_any_batch(kernels: Kernels, batch: Ragged, form: str) -> None:
    assert_same(*readers(kernels, batch, READ_FORMS[form][2]), *read_inputs(batch, form, SINGLE))


@pytest.mark.parametrize("form", READ_FORMS)
@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
def test_equals_the_oracle(kernels: Kernels, form: str, ordered: bool) -> None:
    batch = Ragged(FEW, ordered, seed=3)
    assert_same(*readers(kernels, batch, READ_FORMS[form][2]), *read_inputs(batch, form, SINGLE))


@pytest.mark.parametrize("form", ["folded", "separate heads, shared keys"])
def test_equals_the_oracle_on_graphs_of_several_chunks(kernels: Kernels, form: str) -> None:
    batch = Ragged(MIXED, False, seed=4)
    assert_same(*readers(kernels, batch, READ_FORMS[form][2]), *read_inputs(batch, form, SINGLE))


# The last three have more slots than one tile, or more heads side by side.
@pytest.mark.parametrize(
    ("slots", "heads", "own", "dim", "rows"),
    [
        (1, 1, 1, 8, 64),
        (16, 4, 1, 16, 64),
        (3, 4, 4, 33, 64),
        (2, 1, 1, 200, 64),
        (19, 2, 2, 8, 16),
        (17, 3, 1, 16, 16),
        (3, 5, 1, 8, 16),
    ],
)
def test_slots_heads_and_widths(kernels: Kernels, slots: int, heads: int, own: int, dim: int, rows: int) -> None:
    batch = Ragged((2, 0, 33) if rows == 16 else (2, 0, 17), False, seed=slots)
    graphs = batch.num_graphs
    query = batch.randn(batch.num_nodes, own, dim, dtype=SINGLE, salt=1) / dim**0.5
    key, value = (batch.randn(graphs, slots, heads, dim, dtype=SINGLE, salt=salt) for salt in (2, 3))

    def call(*arguments: Any, **keywords: Any) -> Any:
        return kernels(*arguments, settings={"ROWS": rows}, **keywords)

    assert_same(*readers(call, batch, summed=own == 1), query, key, value)


@pytest.mark.parametrize("rows", [64, 16], ids=["one tile", "several tiles"])
def test_residual_and_nodes_that_read_nothing(kernels: Kernels, rows: int) -> None:
    batch = Ragged(FEW, False, seed=6)
    where = batch.mask(salt=7)
    query, key, value = read_inputs(batch, "folded", SINGLE)
    value, slots = value[..., : query.size(-1)], 9
    key, value = (tensor.repeat(1, slots // 3, 1, 1) for tensor in (key, value))
    spoilt = query.masked_fill(~where[:, None, None], float("nan"))

    def call(*arguments: Any, **keywords: Any) -> Any:
        return kernels(*arguments, settings={"ROWS": rows}, **keywords)

    def fast(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return read(call, batch, query, key, value, where, sum_heads=True, residual=True)

    def slow(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context = reference.read(query, key, value, batch.index()).sum(dim=1, keepdim=True)
        return query + context.masked_fill(~where[:, None, None], 0.0)

    assert_same(fast, slow, query, key, value)
    context = fast(spoilt, key, value)
    grads = call("read_backward", torch.ones_like(context), spoilt, key, value, *places(batch, where), sum_heads=True)
    assert bool(context[~where].isnan().all())
    assert torch.equal(context[where], fast(query, key, value)[where])
    assert not grads[0][~where].any()
    assert all(bool(grad.isfinite().all()) for grad in grads)


def test_nodes_that_read_nothing_get_zero(kernels: Kernels) -> None:
    batch = Ragged(MIXED, False, seed=6)
    where = batch.mask(salt=7)
    query, key, value = read_inputs(batch, "separate heads", SINGLE)
    context = read(kernels, batch, query.masked_fill(~where[:, None, None], float("nan")), key, value, where)
    assert not context[~where].any()
    assert_close(context[where], reference.read(query, key, value, batch.index())[where])


def test_huge_logits(kernels: Kernels) -> None:
    batch = Ragged(FEW, True, seed=8)
    query, key, value = read_inputs(batch, "folded", SINGLE)
    # Whole numbers: the scores are exact, and so are their differences.
    query, key = (4 * query).round() + 100, key.sign() + 40 * key.sign()
    assert float((query.unsqueeze(1) @ key[batch.index()].transpose(2, 3)).abs().max()) > 1e4
    fast, slow = readers(kernels, batch, summed=True)
    assert_same(fast, slow, query, key, value)

    def tiled(*arguments: Any, **keywords: Any) -> Any:
        return kernels(*arguments, settings={"ROWS": 16}, **keywords)

    key, value = (tensor.repeat(1, 6, 1, 1) for tensor in (key, value))
    fast, slow = readers(tiled, batch, summed=True)
    (context, grads), (slow_context, slow_grads) = (with_gradients(run, query, key, value) for run in (fast, slow))
    assert_close(context[0], slow_context[0])
    for one, other in zip(grads, slow_grads, strict=True):
        # Over several tiles the backward has a log-mass, which float32 rounds by up to 2^-10 at 2e4.
        assert_close(one, other, scale=2**-10 / TOLERANCE[SINGLE])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("form", ["folded", "separate heads"])
def test_half_inputs_have_single_contexts(kernels: Kernels, form: str, dtype: torch.dtype) -> None:
    batch = Ragged(FEW, False, seed=9)
    assert_same_in_halves(*readers(kernels, batch, READ_FORMS[form][2]), *read_inputs(batch, form, dtype))


def test_no_nodes(kernels: Kernels) -> None:
    batch = Ragged((0, 0), True, seed=1)
    context, grads = with_gradients(readers(kernels, batch, summed=True)[0], *read_inputs(batch, "folded", SINGLE))
    assert context[0].shape[0] == 0
    assert not any(bool(grad.any()) for grad in grads)


def test_control_wrong_reads_fail(kernels: Kernels) -> None:
    """Controls: heads that are summed wrongly, and a key without a gradient."""
    batch = Ragged(FEW, True, seed=3)
    fast, slow = readers(kernels, batch, summed=True)
    inputs = read_inputs(batch, "folded", SINGLE)
    with pytest.raises(AssertionError):
        assert_same(lambda query, key, value: fast(query, key.detach(), value), slow, *inputs)
    with pytest.raises(AssertionError):
        assert_same(readers(kernels, batch, summed=False)[0], slow, *inputs)
