"""A write over chunks is the write over all of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mooring import ops
from mooring.ops.stream import NodeChunk, write_stream
from support import Ragged, assert_close, ragged

from cases import log_weight, write_inputs  # isort: skip


@pytest.mark.parametrize("null", [None, torch.tensor([0.5, -1.0]).double()], ids=["", "competing"])
@given(batch=ragged(), size=st.integers(1, 5))
def test_any_chunks_give_the_whole(batch: Ragged, size: int, null: torch.Tensor | None) -> None:
    query, key, value = write_inputs(batch, "own heads")
    index, weight = batch.index(), log_weight(batch, "some -inf")
    assert weight is not None
    starts = range(0, max(batch.num_nodes, 1), size)
    chunks = [tuple(tensor[at : at + size] for tensor in (key, value, index, weight)) for at in starts]
    state = write_stream(query, [NodeChunk(*chunks[0]), *chunks[1:]], num_graphs=batch.num_graphs, null_logit=null)
    given = {"num_graphs": batch.num_graphs, "log_weight": weight, "null_logit": null}
    whole = ops.write(query, key, value, index, **given)
    assert_close(state.content, whole.content)
    assert_close(state.log_mass, whole.log_mass)


def test_no_chunks() -> None:
    with pytest.raises(ValueError, match="write_stream") as caught:
        write_stream(torch.zeros(3, 2, 5), [])
    assert str(caught.value) == "write_stream: got no chunks. Pass at least one, which may have zero nodes."


def test_chunks_with_graph_ids_need_their_number() -> None:
    batch = Ragged((3, 5), True, seed=1)
    query, *nodes = write_inputs(batch, "own heads")
    with pytest.raises(ValueError, match="write_stream") as caught:
        write_stream(query, [(*nodes, batch.index())])
    assert str(caught.value) == (
        "write_stream: chunks have an index but num_graphs is missing. "
        "Pass num_graphs: a chunk need not see the last graph."
    )


def test_chunks_with_plans_need_no_number() -> None:
    batch = Ragged((3, 5), True, seed=1)
    query, key, value = write_inputs(batch, "own heads")
    plan = ops.plan(batch.index(), num_graphs=2)
    assert_close(write_stream(query, [(key, value, plan)]).content, ops.write(query, key, value, plan).content)
