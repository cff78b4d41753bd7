"""Invariances of the ops: node order, batching, replication."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState
from support import WAYS, Ragged, assert_close, ragged, tile_sizes, with_gradients

from cases import HEADS, SLOTS, VDIM, WRITE_FORMS, read_inputs, write_inputs  # isort: skip

FORM = st.sampled_from(sorted(WRITE_FORMS))
TILE = st.sampled_from(WAYS)


def inputs(batch: Ragged, form: str = "separate heads") -> tuple[Tensor, Tensor, Tensor]:
    query, key, *rest = write_inputs(batch, form)
    return query, key, rest[0] if rest else key


def assert_states_equal(actual: SlotState, expected: SlotState) -> None:
    assert_close(actual.content, expected.content)
    assert_close(actual.log_mass, expected.log_mass)


@given(ragged(), FORM, TILE)
def test_node_order_does_not_matter(batch: Ragged, form: str, tile: tuple[int, int, int]) -> None:
    query, key, value = inputs(batch, form)
    index, graphs = batch.index(), batch.num_graphs
    order = torch.randperm(batch.num_nodes, generator=batch.generator())
    with tile_sizes(*tile):
        state = ops.write(query, key, value, index, num_graphs=graphs)
        moved = ops.write(query, key[order], value[order], index[order], num_graphs=graphs)
        context = ops.read(*read_inputs(batch, "separate heads"), index)
        node_query, *slots = read_inputs(batch, "separate heads")
        assert_close(ops.read(node_query[order], *slots, index[order]), context[order])
    assert_states_equal(moved, state)


@given(ragged(), FORM, TILE)
def test_batch_mates_and_graph_order_do_not_matter(batch: Ragged, form: str, tile: tuple[int, int, int]) -> None:
    query, key, value = inputs(batch, form)
    index, graphs = batch.index(), batch.num_graphs
    relabel = torch.randperm(graphs, generator=batch.generator())
    with tile_sizes(*tile):
        state = ops.write(query, key, value, index, num_graphs=graphs)
        renamed = ops.write(query, key, value, relabel[index], num_graphs=graphs)
        assert_states_equal(SlotState(*(entry[relabel] for entry in renamed)), state)
        for graph in range(graphs):
            mine = index == graph
            alone = ops.write(query, key[mine], value[mine])
            assert_states_equal(alone, SlotState(*(entry[graph : graph + 1] for entry in state)))


def test_a_write_that_normalises_over_the_batch_fails_the_same_check() -> None:
    """Control: one softmax over all graphs depends on the other graphs of the batch."""
    batch = Ragged((3, 5), True, seed=1)
    query, key, value = inputs(batch)
    mine = batch.index() == 0
    scores = torch.einsum("mhd,nhd->nmh", query, key).softmax(dim=0)
    leaky = torch.einsum("nmh,nhd->mhd", scores[mine], value[mine])
    with pytest.raises(AssertionError):
        assert_close(leaky.unsqueeze(0), ops.write(query, key[mine], value[mine]).content)


@given(ragged(), FORM, st.integers(2, 5), TILE)
def test_replication_adds_log_r_to_the_mass_and_nothing_to_the_content(
    batch: Ragged, form: str, times: int, tile: tuple[int, int, int]
) -> None:
    query, key, value = inputs(batch, form)
    index, graphs = batch.index(), batch.num_graphs
    with tile_sizes(*tile):
        once = ops.write(query, key, value, index, num_graphs=graphs)
        key_r, value_r, index_r = key.repeat(times, 1, 1), value.repeat(times, 1, 1), index.repeat(times)
        often = ops.write(query, key_r, value_r, index_r, num_graphs=graphs)
    assert_states_equal(often, SlotState(once.content, once.log_mass + math.log(times)))


def test_a_sum_fails_the_replication_check() -> None:
    """Control: an unnormalised content grows with the number of copies."""
    query, key, value = inputs(Ragged((5,), True, seed=1))
    once, twice = ops.write(query, key, value), ops.write(query, key.repeat(2, 1, 1), value.repeat(2, 1, 1))
    with pytest.raises(AssertionError):
        assert_close(twice.total, once.total)


@given(ragged(max_graphs=3, max_size=5), FORM, TILE)
def test_log_weight_is_a_number_of_copies(batch: Ragged, form: str, tile: tuple[int, int, int]) -> None:
    query, key, value = inputs(batch, form)
    index, graphs = batch.index(), batch.num_graphs
    copies = torch.randint(0, 5, (batch.num_nodes,), generator=batch.generator())
    with tile_sizes(*tile):
        weighed = ops.write(query, key, value, index, num_graphs=graphs, log_weight=copies.double().log())
        key_c, value_c, index_c = (tensor.repeat_interleave(copies, dim=0) for tensor in (key, value, index))
        copied = ops.write(query, key_c, value_c, index_c, num_graphs=graphs)
    assert_states_equal(weighed, copied)


@given(ragged(), FORM, TILE)
def test_masked_nodes_have_no_effect_and_receive_none(batch: Ragged, form: str, tile: tuple[int, int, int]) -> None:
    index, graphs, where = batch.index(), batch.num_graphs, batch.mask(salt=7)
    query, key, value = inputs(batch, form)
    key_is_value = value is key

    def masked(query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        value = key if key_is_value else value
        return ops.write(query, key, value, index, num_graphs=graphs, where=where)

    # Whatever a masked node holds, even NaN, is never read.
    spoilt_key = key.masked_fill(~where[:, None, None], float("nan"))
    spoilt_value = value.masked_fill(~where[:, None, None], float("nan"))
    with tile_sizes(*tile):
        state, grads = with_gradients(masked, query, spoilt_key, spoilt_value)
        there = ops.write(query, key[where], value[where], index[where], num_graphs=graphs)
    assert_states_equal(SlotState(*state), there)
    assert bool(grads[0].isfinite().all())
    for grad in grads[1:]:
        assert not bool(grad[~where].any())


@given(ragged(), TILE)
def test_nodes_that_do_not_read_get_zero_and_change_nothing(batch: Ragged, tile: tuple[int, int, int]) -> None:
    index, where = batch.index(), batch.mask(salt=7)
    query, key, value = read_inputs(batch, "separate heads")
    spoilt = query.masked_fill(~where[:, None, None], float("nan"))
    with tile_sizes(*tile):
        (context,), grads = with_gradients(lambda *t: ops.read(*t, index, where=where), spoilt, key, value)
        alone = ops.read(query[where], key, value, index[where])
    assert_close(context[where], alone)
    assert not bool(context[~where].any())
    assert not bool(grads[0][~where].any())
    assert bool(torch.stack([grad.isfinite().all() for grad in grads]).all())


def test_slots_and_heads_are_independent() -> None:
    batch = Ragged((7, 3), False, seed=1)
    query, key, value = inputs(batch)
    state = ops.write(query, key, value, batch.index())
    for m in range(SLOTS):
        for h in range(HEADS):
            heads = slice(h, h + 1)
            one = ops.write(query[m : m + 1, heads], key[:, heads], value[:, heads], batch.index())
            assert_close(one.content.view(2, VDIM), state.content[:, m, h])
