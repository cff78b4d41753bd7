"""Every code path of the read equals the oracle on values and all gradients."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from mooring.ops import reference
from support import WAYS, Draw, Ragged, assert_as_exact, assert_close, assert_same, ragged, tile_sizes

from cases import HEADS, READ_FORMS, SLOTS, VDIM, read_inputs, read_out, reader  # isort: skip

MIXED = (0, 5, 5, 1, 0, 13, 2, 6, 5, 0)
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
FORMS = pytest.mark.parametrize("form", READ_FORMS)
TILES = pytest.mark.parametrize("tile", WAYS, ids=str)


def compare(batch: Ragged, form: str, masked: bool, dtype: torch.dtype) -> None:
    where = batch.mask(salt=7) if masked else None
    fast, slow = reader(ops.read, form, batch, where), reader(reference.read, form, batch, where)
    assert_same(fast, slow, *read_inputs(batch, form, dtype))


@DTYPES
@FORMS
@TILES
@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
def test_equals_the_oracle(dtype: torch.dtype, form: str, tile: tuple[int, int, int], ordered: bool) -> None:
    with tile_sizes(*tile):
        compare(Ragged(MIXED, ordered, seed=3), form, masked=False, dtype=dtype)


@given(
    ragged(),
    st.sampled_from(sorted(READ_FORMS)),
    st.booleans(),
    st.sampled_from(WAYS),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_equals_the_oracle_on_any_batch(
    batch: Ragged, form: str, masked: bool, tile: tuple[int, int, int], dtype: torch.dtype
) -> None:
    with tile_sizes(*tile):
        compare(batch, form, masked, dtype)


def draws(form: str, dtype: torch.dtype, op: Any = ops.read) -> list[Draw]:
    batches = [Ragged((61, 0, 17, 5, 29), False, seed=seed) for seed in range(5)]
    return [
        Draw(*(reader(way, form, batch) for way in (op, read_out, reference.read)), read_inputs(batch, form, dtype))
        for batch in batches
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@FORMS
def test_is_as_exact_as_the_formula(dtype: torch.dtype, form: str) -> None:
    assert_as_exact(draws(form, dtype))


def test_control_a_read_of_rounded_inputs_fails() -> None:
    def rounded(*inputs: Tensor, **options: Any) -> Any:
        return read_out(*(one.half().float() if one.is_floating_point() else one for one in inputs), **options)

    with pytest.raises(AssertionError, match="are allowed"):
        assert_as_exact(draws("separate heads", torch.float32, rounded), WAYS[:1])


def test_control_wrong_reads_fail() -> None:
    """Controls: slots of another graph, and keys without a gradient."""
    batch = Ragged(MIXED, False, seed=3)
    right = reader(ops.read, "separate heads", batch)

    def next_graph(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return right(query, key, value.roll(1, dims=0))

    def detached(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return right(query, key.detach(), value)

    for wrong in (next_graph, detached):
        with pytest.raises(AssertionError):
            assert_same(wrong, reader(reference.read, "separate heads", batch), *read_inputs(batch, "separate heads"))


@FORMS
@TILES
def test_gradcheck(form: str, tile: tuple[int, int, int]) -> None:
    batch = Ragged((2, 0, 3, 3), False, seed=1)
    inputs = [tensor.requires_grad_() for tensor in read_inputs(batch, form)]
    call = reader(ops.read, form, batch, batch.mask(salt=7))
    with tile_sizes(*tile):
        assert torch.autograd.gradcheck(call, inputs, fast_mode=True, check_batched_grad=True)


@DTYPES
@TILES
@pytest.mark.parametrize("form", ["folded", "folded, shared keys"])
@pytest.mark.parametrize("masked", [False, True], ids=["all read", "some read"])
@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
def test_residual_is_the_query_and_its_context(
    dtype: torch.dtype, tile: tuple[int, int, int], form: str, masked: bool, ordered: bool
) -> None:
    batch = Ragged(MIXED, ordered, seed=3)
    index, where = batch.index(), batch.mask(salt=7) if masked else None
    query, key, value = read_inputs(batch, form, dtype)
    value = value[..., : query.size(-1)]

    def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return ops.read(query, key, value, index, where=where, sum_heads=True, residual=True)

    oracle = reader(reference.read, form, batch, where)

    def apart(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return query + oracle(query, key, value)

    with tile_sizes(*tile):
        assert_same(fused, apart, query, key, value)


def test_without_index_all_nodes_read_the_one_graph() -> None:
    batch = Ragged((13,), True, seed=2)
    inputs = read_inputs(batch, "separate heads")
    with tile_sizes(2, 3):
        assert_close(ops.read(*inputs), reference.read(*inputs))


def test_shapes_are_nodes_heads_dim() -> None:
    batch = Ragged((4, 7), True, seed=2)
    assert ops.read(*read_inputs(batch, "separate heads"), batch.index()).shape == (11, HEADS, VDIM)
    assert ops.read(*read_inputs(batch, "folded"), batch.index(), sum_heads=True).shape == (11, 1, VDIM)


@FORMS
@TILES
def test_weights_are_the_softmax_behind_the_context(form: str, tile: tuple[int, int, int]) -> None:
    batch = Ragged(MIXED, False, seed=4)
    query, key, value = read_inputs(batch, form)
    index = batch.index()
    with tile_sizes(*tile):
        weights = ops.read_weights(query, key, index)
    assert weights.shape == (batch.num_nodes, SLOTS, HEADS)
    assert_close(weights.sum(dim=1), torch.ones(batch.num_nodes, HEADS).double())
    context = torch.einsum("nmh,nmhd->nhd", weights, value[index])
    assert_close(ops.read(query, key, value, index), context)


def test_weights_of_a_key_with_one_graph_are_those_of_a_shared_key() -> None:
    batch = Ragged((4, 7), True, seed=2)
    query, key, _ = read_inputs(batch, "separate heads")
    shared = key[0]
    assert_close(
        ops.read_weights(query, shared.unsqueeze(0), batch.index()), ops.read_weights(query, shared, batch.index())
    )
