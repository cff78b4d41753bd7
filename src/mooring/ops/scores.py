"""Scores of nodes against the slots of their own graph, for what must see all of them at once."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from mooring.ops import backend
from mooring.ops.plan import Plan
from mooring.ops.state import full_precision, statistics_dtype


def slot_scores(
    slots: Float[Tensor, "*graphs slots heads dim"],
    nodes: Float[Tensor, "nodes #heads dim"],
    plan: Plan,
    *,
    heads_first: bool = False,
) -> Float[Tensor, "nodes _ _"]:
    """Return ``[nodes, slots, heads]`` dot products, or ``[nodes, heads, slots]``; float32 for half inputs.

    Slots without a graphs axis are shared by all graphs, a heads axis of one by all heads. No slots are gathered per
    node, except where the sizes of the graphs cannot be read or the plain back end meets graphs of very uneven sizes.
    """
    dtype = statistics_dtype(nodes.dtype)
    by_head = slots.transpose(-3, -2)
    if nodes.size(1) == 1:
        rows = by_head if heads_first else slots
        table = rows.reshape(*rows.shape[:-3], 1, rows.size(-3) * rows.size(-2), rows.size(-1))
    else:
        table = by_head
    table, nodes = table.to(dtype), nodes.to(dtype)
    with full_precision(nodes.device):
        scores = backend.of(plan, table, nodes).scores(table, nodes, plan)
    if nodes.size(1) == 1:
        return scores.view(nodes.size(0), *rows.shape[-3:-1])
    return scores if heads_first else scores.transpose(1, 2)
