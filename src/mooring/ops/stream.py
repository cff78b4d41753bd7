"""A write over nodes that arrive in chunks, or do not fit into memory at once."""

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
    """A chunk of the nodes: the arguments of :func:`~mooring.ops.write` for these nodes."""

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
    r"""Write all chunks of nodes and return the state of their union; each chunk is used once.

    Exact: the state of a union is the :func:`~mooring.ops.merge` of the states of the chunks. Without gradients, memory
    for one chunk and one state suffices, so the chunks may come from a memory map larger than RAM. With gradients the
    chunks stay in memory until the backward.

    Cost: one write per chunk, and one merge per chunk over the graphs that occur in it.

    Args:
        query, null_logit: as in :func:`~mooring.ops.write`.
        chunks: :class:`NodeChunk` or tuples ``(key, value[, index[, log_weight]])``.
        num_graphs: number of graphs; required if chunks have an ``index``: a chunk need not contain the last graph.

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
                "Pass num_graphs: a chunk need not contain the last graph."
            )
        checks.check_rank("write_stream", "key", chunk.key, "nodes heads dim")
        nodes, names = chunk.key.size(0), {"name": "index", "of": "key"}
        plan = make_plan("write_stream", chunk.index, None, nodes, num_graphs, device=chunk.key.device, **names)
        num_graphs = plan.num_graphs
        # Queries with a graphs axis have rows for all graphs, empty ones too.
        occupied = plan.occupied if query.dim() == 3 else None
        layout = plan if occupied is None else plan.compact
        part = write(query, chunk.key, chunk.value, layout, log_weight=chunk.log_weight, null_logit=null_logit)
        if occupied is not None:
            state = _merge_rows(_empty_state(part, num_graphs) if state is None else state, occupied[0], part)
        else:
            # Cloned, because later chunks change the state in place and the backward of the write needs its outputs.
            state = SlotState(*map(Tensor.clone, part)) if state is None else merge(state, part)
    if state is None:
        raise ValueError("write_stream: got no chunks. Pass at least one, which may have zero nodes.")
    return state


def _empty_state(like: SlotState, num_graphs: int) -> SlotState:
    """Return the state of empty graphs, the identity of merge."""
    checks.check_room("write_stream", "num_graphs", num_graphs, like.content[:1].nbytes, like.content.device)
    content, log_mass = (entry.new_zeros(num_graphs, *entry.shape[1:]) for entry in like)
    return SlotState(content, log_mass.fill_(float("-inf")))


def _merge_rows(state: SlotState, graphs: Tensor, part: SlotState) -> SlotState:
    """Merge ``part`` into the rows ``graphs`` of ``state``, in place; the last row of ``part`` is of no graph."""
    before = SlotState(*(entry.index_select(0, graphs) for entry in state))
    rows = merge(before, SlotState(*(entry[:-1] for entry in part)))
    return SlotState(*(entry.index_copy_(0, graphs, row) for entry, row in zip(state, rows, strict=True)))
