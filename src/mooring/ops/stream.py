"""A write over nodes that do not fit, or do not arrive, at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from mooring.ops.plan import Plan
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
    for part in chunks:
        chunk = part if isinstance(part, NodeChunk) else NodeChunk(*part)
        if chunk.index is not None and num_graphs is None and not isinstance(chunk.index, Plan):
            raise ValueError(
                "write_stream: chunks have an index but num_graphs is missing. "
                "Pass num_graphs: a chunk need not see the last graph."
            )
        given = {"log_weight": chunk.log_weight, "null_logit": null_logit}
        written = write(query, chunk.key, chunk.value, chunk.index, num_graphs=num_graphs, **given)
        state = written if state is None else merge(state, written)
    if state is None:
        raise ValueError("write_stream: got no chunks. Pass at least one, which may have zero nodes.")
    return state
