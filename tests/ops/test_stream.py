"""A write over chunks equals the write over their union."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState, reference, stream
from mooring.ops.stream import NodeChunk, write_stream
from support import Ragged, assert_close, assert_same, ragged

from cases import log_weight, write_inputs  # isort: skip


@pytest.mark.parametrize("null", [None, torch.tensor([0.5, -1.0]).double()], ids=["", "competing"])
@given(batch=ragged(), size=st.integers(1, 5))
def test_any_chunks_give_the_whole(batch: Ragged, size: int, null: Tensor | None) -> None:
    query, key, value = write_inputs(batch, "separate heads")
    index, weight = batch.index(), log_weight(batch, "some -inf")
    assert weight is not None
    starts = range(0, max(batch.num_nodes, 1), size)
    chunks = [tuple(tensor[at : at + size] for tensor in (key, value, index, weight)) for at in starts]
    state = write_stream(query, [NodeChunk(*chunks[0]), *chunks[1:]], num_graphs=batch.num_graphs, null_logit=null)
    options = {"num_graphs": batch.num_graphs, "log_weight": weight, "null_logit": null}
    whole = ops.write(query, key, value, index, **options)
    assert_close(state.content, whole.content)
    assert_close(state.log_mass, whole.log_mass)


@pytest.mark.parametrize("order", ["sorted", "unsorted", "all graphs first"])
def test_chunks_of_few_graphs_give_the_whole_with_gradients(order: str) -> None:
    batch = Ragged((3, 1, 4) * 10, order != "unsorted", seed=2)
    query, key, value = write_inputs(batch, "separate heads")
    index, cuts = batch.index(), (7, 9, 30, 61)
    if order == "all graphs first":
        index, cuts = index.view(10, 8).t().flatten(), (60, 70, 75)

    def streamed(query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        nodes = zip(*(tensor.tensor_split(cuts) for tensor in (key, value, index)), strict=True)
        return write_stream(query, nodes, num_graphs=batch.num_graphs)

    def whole(query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        return reference.write(query, key, value, index, num_graphs=batch.num_graphs)

    assert_same(streamed, whole, query, key, value)


def test_only_the_graphs_of_a_chunk_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def merge(*states: SlotState) -> SlotState:
        rows.extend(state.log_mass.size(0) for state in states)
        return ops.merge(*states)

    monkeypatch.setattr(stream, "merge", merge)
    index = torch.arange(200).repeat_interleave(3)
    nodes = zip(*(torch.randn(600, 1, 2).split(15) for _ in range(2)), index.split(15), strict=True)
    write_stream(torch.randn(2, 1, 2), nodes, num_graphs=200)
    assert rows == [5] * 80


def test_chunks_of_one_stream_have_one_number_of_graphs() -> None:
    x = torch.randn(2, 1, 2)
    plans = [ops.plan(torch.tensor([0, 1]), num_graphs=graphs) for graphs in (20, 21)]
    with pytest.raises(ValueError, match="write_stream: num_graphs says 20 but the plan was made for 21"):
        write_stream(torch.randn(1, 1, 2), [(x, x, plan) for plan in plans])


def test_no_chunks() -> None:
    with pytest.raises(ValueError, match="write_stream") as caught:
        write_stream(torch.zeros(3, 2, 5), [])
    assert str(caught.value) == "write_stream: got no chunks. Pass at least one, which may have zero nodes."


def test_chunks_with_graph_ids_need_their_number() -> None:
    batch = Ragged((3, 5), True, seed=1)
    query, *nodes = write_inputs(batch, "separate heads")
    with pytest.raises(ValueError, match="write_stream") as caught:
        write_stream(query, [(*nodes, batch.index())])
    assert str(caught.value) == (
        "write_stream: chunks have an index but num_graphs is missing. "
        "Pass num_graphs: a chunk need not contain the last graph."
    )


def test_chunks_with_plans_need_no_number() -> None:
    batch = Ragged((3, 5), True, seed=1)
    query, key, value = write_inputs(batch, "separate heads")
    plan = ops.plan(batch.index(), num_graphs=2)
    assert_close(write_stream(query, [(key, value, plan)]).content, ops.write(query, key, value, plan).content)
