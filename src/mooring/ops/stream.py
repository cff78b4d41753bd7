"""A write over nodes that do not fit, or do not arrive, at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from mooring.ops import checks
from mooring.ops.plan import Plan, make_plan
from mooring.ops.state import SlotState, merge
from mooring.ops.write import write


@dataclass(frozen=True)
class NodeChunk:
    """Some of the nodes: their keys and values, and what :func:`~mooring.ops.write` takes beside them."""

    key: Tensor
    value: Tensor
    index: Tensor | Plan | None = None
    log_weight: Tensor | None = None


def write_stream(
    query: Tensor,
    chunks: Iterable[NodeChunk | tuple[Tensor, ...]],
    *,
    num_graphs: int | None = None,
    null_logit: Tensor | None = None,
) -> SlotState:
    r"""Slot queries and an iterator over chunks of nodes -> the state of all of them, each chunk seen once.

    Exact: the state of a union is the :func:`~mooring.ops.merge` of the parts' states. Without gradients the memory
    needed is one chunk and one state, so the chunks may come from a memory map larger than RAM. With gradients the
    chunks stay alive until the backward.

    Cost: that of the writes, and for each chunk a merge of the graphs that it has nodes of.

    Args:
        query, null_logit: as in :func:`~mooring.ops.write`.
        chunks: :class:`NodeChunk` or tuples ``(key, value[, index[, log_weight]])``.
        num_graphs: number of graphs; needed when chunks have an ``index``, since no chunk need see the last graph.

    >>> import torch
    >>> query, x = torch.ones(1, 1, 2), torch.randn(5, 1, 2)
    >>> parts = write_stream(query, [(x[:2], x[:2]), (x[2:], x[2:])])
    >>> torch.allclose(parts.content, write(query, x, x).content)
    True
    """
    state: SlotState | None = None
    for item in chunks:
        chunk = item if isinstance(item, NodeChunk) else NodeChunk(*item)
        if chunk.index is not None and num_graphs is None and not isinstance(chunk.index, Plan):
            raise ValueError(
                "write_stream: chunks have an index but num_graphs is missing. "
                "Pass num_graphs: a chunk need not see the last graph."
            )
        checks.check_rank("write_stream", "key", chunk.key, "nodes heads dim")
        nodes, names = chunk.key.size(0), {"name": "index", "of": "key"}
        plan = make_plan("write_stream", chunk.index, None, nodes, num_graphs, device=chunk.key.device, **names)
        num_graphs = plan.num_graphs
        # Queries of each graph's own are for all graphs.
        occupied = plan.occupied if query.dim() == 3 else None
        where = plan if occupied is None else plan.compact
        part = write(query, chunk.key, chunk.value, where, log_weight=chunk.log_weight, null_logit=null_logit)
        if occupied is not None:
            state = _merge_rows(_nothing(part, num_graphs) if state is None else state, occupied[0], part)
        else:
            # A copy, because the backward of the write needs its outputs and later chunks change the state in place.
            state = SlotState(*map(Tensor.clone, part)) if state is None else merge(state, part)
    if state is None:
        raise ValueError("write_stream: got no chunks. Pass at least one, which may have zero nodes.")
    return state


def _nothing(like: SlotState, num_graphs: int) -> SlotState:
    """Return the state of graphs into which nothing was written."""
    checks.check_room("write_stream", "num_graphs", num_graphs, like.content[:1].nbytes, like.content.device)
    content, log_mass = (entry.new_zeros(num_graphs, *entry.shape[1:]) for entry in like)
    return SlotState(content, log_mass.fill_(float("-inf")))


def _merge_rows(state: SlotState, graphs: Tensor, part: SlotState) -> SlotState:
    """Merge the states of some of the graphs in place; the last row of ``part`` is of no graph."""
    before = SlotState(*(entry.index_select(0, graphs) for entry in state))
    rows = merge(before, SlotState(*(entry[:-1] for entry in part)))
    return SlotState(*(entry.index_copy_(0, graphs, row) for entry, row in zip(state, rows, strict=True)))
