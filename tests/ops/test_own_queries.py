"""Queries with a graphs axis, as for a memory passed from layer to layer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from support import WAYS, Ragged, assert_close, assert_same, ragged, tile_sizes

from cases import DIM, HEADS, SLOTS, WRITE_FORMS, write_inputs  # isort: skip


@given(
    ragged(max_graphs=5, max_size=7),
    st.sampled_from(list(WRITE_FORMS)),
    st.sampled_from(WAYS),
)
def test_equal_a_write_of_each_graph_by_itself(batch: Ragged, form: str, tile: tuple[int, int, int]) -> None:
    query = batch.randn(batch.num_graphs, SLOTS, HEADS, DIM, salt=9)
    _, *others = write_inputs(batch, form)
    index = batch.index()

    def together(query: Tensor, *inputs: Tensor) -> list[Tensor]:
        return list(ops.write(query, inputs[0], inputs[-1], index, num_graphs=batch.num_graphs))

    def alone(query: Tensor, *inputs: Tensor) -> list[Tensor]:
        states = [
            ops.write(query[graph], inputs[0][index == graph], inputs[-1][index == graph])
            for graph in range(batch.num_graphs)
        ]
        return [torch.cat(parts) for parts in zip(*states, strict=True)]

    with tile_sizes(*tile):
        assert_same(together, alone, query, *others)


def test_weights_sum_to_one_over_each_graph() -> None:
    batch = Ragged((3, 0, 5), False, seed=2)
    query = batch.randn(3, SLOTS, HEADS, DIM, salt=9)
    _, key, value = write_inputs(batch, "separate heads")
    state = ops.write(query, key, value, batch.index(), num_graphs=3)
    weights = ops.write_weights(state, query, key, batch.index())
    total = torch.zeros(3, SLOTS, HEADS).double().index_add(0, batch.index(), weights)
    assert_close(total[[0, 2]], torch.ones(2, SLOTS, HEADS).double())


def test_one_query_per_graph_is_needed() -> None:
    batch = Ragged((3, 5), False, seed=2)
    _, key, value = write_inputs(batch, "separate heads")
    with pytest.raises(ValueError, match=r"write: query has 4 graphs but the batch has 2\."):
        ops.write(batch.randn(4, SLOTS, HEADS, DIM), key, value, batch.index())
