"""Every code path of the write equals the oracle on values and all gradients."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState, reference
from support import WAYS, Draw, Ragged, assert_as_exact, assert_close, assert_same, ragged, tile_sizes

from cases import DIM, HEADS, SLOTS, VDIM, WEIGHTS, WRITE_FORMS, log_weight, write_inputs, writer, written_out  # isort: skip

# Empty graphs first, in the middle and last; equal neighbours; graphs of one tile and of several.
MIXED = (0, 5, 5, 1, 0, 13, 2, 6, 5, 0)
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
FORMS = pytest.mark.parametrize("form", WRITE_FORMS)
TILES = pytest.mark.parametrize("tile", WAYS, ids=str)


def compare(batch: Ragged, form: str, weights: str, masked: bool, dtype: torch.dtype) -> None:
    where = batch.mask(salt=7) if masked else None
    inputs = write_inputs(batch, form, dtype)
    if weights == "finite":
        weight = log_weight(batch, weights, dtype)
        assert weight is not None
        inputs.append(weight)
    fast = writer(ops.write, form, batch, weights, where)
    slow = writer(reference.write, form, batch, weights, where)
    assert_same(fast, slow, *inputs)


@DTYPES
@FORMS
@TILES
@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
def test_equals_the_oracle(dtype: torch.dtype, form: str, tile: tuple[int, int, int], ordered: bool) -> None:
    with tile_sizes(*tile):
        compare(Ragged(MIXED, ordered, seed=3), form, "finite", masked=False, dtype=dtype)


@given(
    ragged(),
    st.sampled_from(sorted(WRITE_FORMS)),
    st.sampled_from(WEIGHTS),
    st.booleans(),
    st.sampled_from(WAYS),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_equals_the_oracle_on_any_batch(
    batch: Ragged, form: str, weights: str, masked: bool, tile: tuple[int, int, int], dtype: torch.dtype
) -> None:
    with tile_sizes(*tile):
        compare(batch, form, weights, masked, dtype)


def draws(form: str, dtype: torch.dtype, op: Any = ops.write) -> list[Draw]:
    batches = [Ragged((61, 0, 17, 5, 29), False, seed=seed) for seed in range(5)]
    return [
        Draw(
            *(writer(way, form, batch) for way in (op, written_out, reference.write)), write_inputs(batch, form, dtype)
        )
        for batch in batches
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@FORMS
def test_is_as_exact_as_the_formula(dtype: torch.dtype, form: str) -> None:
    assert_as_exact(draws(form, dtype))


def test_control_a_write_of_rounded_inputs_fails() -> None:
    def rounded(*inputs: Tensor, **options: Any) -> Any:
        return written_out(*(one.half().float() if one.is_floating_point() else one for one in inputs), **options)

    with pytest.raises(AssertionError, match="are allowed"):
        assert_as_exact(draws("separate heads", torch.float32, rounded), WAYS[:1])


def test_control_wrong_writes_fail() -> None:
    """Controls: content of the whole batch instead of each graph, and a mass without its largest score."""
    batch = Ragged(MIXED, False, seed=3)

    def across_graphs(query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        state = ops.write(query, key, value)
        return SlotState(*(entry.expand(batch.num_graphs, *entry.shape[1:]) for entry in state))

    def unweighted(query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        return writer(ops.write, "separate heads", batch)(query, key.detach(), value)

    for wrong in (across_graphs, unweighted):
        with pytest.raises(AssertionError):
            assert_same(wrong, writer(reference.write, "separate heads", batch), *write_inputs(batch, "separate heads"))


@FORMS
@TILES
def test_gradcheck(form: str, tile: tuple[int, int, int]) -> None:
    batch = Ragged((2, 0, 3, 3), False, seed=1)
    inputs = [tensor.requires_grad_() for tensor in write_inputs(batch, form)]
    weight = batch.randn(batch.num_nodes, salt=5).requires_grad_()

    def filled(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        state = writer(ops.write, form, batch, "finite")(*tensors)
        keep = torch.tensor([0, 2, 3])
        return state.content[keep], state.log_mass[keep]

    with tile_sizes(*tile):
        assert torch.autograd.gradcheck(filled, (*inputs, weight), fast_mode=True, check_batched_grad=True)


def test_without_index_all_nodes_are_one_graph() -> None:
    batch = Ragged((13,), True, seed=2)
    query, key, value = write_inputs(batch, "separate heads")
    with tile_sizes(2, 3):
        alone, indexed = ops.write(query, key, value), ops.write(query, key, value, batch.index())
    assert_close(alone.content, indexed.content)
    assert_close(alone.log_mass, reference.write(query, key, value).log_mass)


def test_shapes_are_graphs_slots_heads_dim() -> None:
    batch = Ragged((4, 7), True, seed=2)
    query, key, value = write_inputs(batch, "separate heads")
    state = ops.write(query, key, value, batch.index(), num_graphs=11)
    assert state.content.shape == (11, SLOTS, HEADS, VDIM)
    assert state.log_mass.shape == (11, SLOTS, HEADS)
    assert key.size(-1) == DIM


def test_num_graphs_is_taken_from_the_largest_id() -> None:
    batch = Ragged((4, 0, 7), True, seed=2)
    assert ops.write(*write_inputs(batch, "shared"), batch.index()).log_mass.size(0) == 3


@FORMS
def test_weights_are_the_softmax_behind_the_content(form: str) -> None:
    batch = Ragged(MIXED, False, seed=4)
    query, key, *rest = write_inputs(batch, form)
    value = rest[0] if rest else key
    index, weight = batch.index(), log_weight(batch, "some -inf")
    state = ops.write(query, key, value, index, num_graphs=batch.num_graphs, log_weight=weight)
    weights = ops.write_weights(state, query, key, index, log_weight=weight)
    zeros = torch.zeros(batch.num_graphs, SLOTS, HEADS).double()
    assert_close(zeros.index_add(0, index, weights), state.log_mass.isfinite().double())
    weighted = torch.einsum("nmh,nhd->nmhd", weights, value.expand(-1, HEADS, -1))
    assert_close(torch.zeros_like(state.content).index_add(0, index, weighted), state.content)
    assert weights.shape == (batch.num_nodes, SLOTS, HEADS)


def test_weights_of_one_graph_need_no_index() -> None:
    query, key, value = write_inputs(Ragged((11,), True, seed=4), "shared")
    weights = ops.write_weights(ops.write(query, key, value), query, key)
    assert_close(weights.sum(dim=0), torch.ones(SLOTS, HEADS).double())


def test_weights_of_several_graphs_need_an_index() -> None:
    query, key, index = torch.randn(2, 2, 3), torch.randn(4, 1, 3), torch.arange(4)
    state = ops.write(query, key, torch.randn(4, 2, 5), index)
    with pytest.raises(ValueError, match="write_weights: state has 4 graphs but without index all nodes are one graph"):
        ops.write_weights(state, query, key)
    with pytest.raises(ValueError, match="read_weights: key has 4 graphs but without index all nodes are one graph"):
        ops.read_weights(torch.randn(5, 1, 3), torch.randn(4, 2, 2, 3))
