"""Slots -> nodes: the read and its attention weights."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mooring.ops import backend, checks
from mooring.ops.heads import softmax_over_slots
from mooring.ops.plan import Plan, make_plan
from mooring.ops.state import full_precision, statistics_dtype


def read(
    query: Float[Tensor, "nodes #heads dim"],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "graphs slots heads vdim"],
    index: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    where: Bool[Tensor, " nodes"] | None = None,
    sum_heads: bool = False,
    residual: bool = False,
) -> Float[Tensor, "nodes _ vdim"]:
    r"""Compute the context of every node from the slots of its own graph.

    .. math::
        \rho_{jm} = \operatorname{softmax}_m(q_j^\top k_m), \qquad O_j = \sum_m \rho_{jm} v_m

    Paper: ``eq:slotreadout``, ``eq:target-slot-read``. The caller scales the scores.

    Args:
        query: node queries; a heads axis of one is shared by all heads.
        key: ``[graphs, slots, heads, dim]``, or ``[slots, heads, dim]`` shared by all graphs (static addresses).
        value: slot values.
        index: graph id of each node, in any order, or the :class:`~mooring.ops.Plan` of the batch; None if all nodes
            are one graph.
        where: boolean mask of the nodes that read; the others are skipped and get zero. None means all.
        sum_heads: sum the contexts of the heads. With a shared query this is one skinny matrix product: the folded
            order, in which each head's part of the output projection was applied to its values beforehand.
        residual: return :math:`q_j + O_j`; needs ``sum_heads`` and a shared query as wide as the values. A skipped node
            gets its query. Needs no extra pass over the nodes.

    Shapes: context ``[nodes, heads, vdim]``, or ``[nodes, 1, vdim]`` with ``sum_heads``; float32 for half inputs.

    Every graph has slots, so no node reads from an empty set.

    Cost: ``O(nodes * slots * heads * (dim + vdim))``; memory beyond inputs and outputs does not grow with the nodes.

    >>> value = torch.tensor([1.0, 3.0]).view(1, 2, 1, 1)
    >>> read(torch.zeros(1, 1, 2), torch.ones(2, 1, 2), value).item()
    2.0
    """
    checks.check_tensor("read", "key", key)
    shared = key.unsqueeze(0) if key.dim() == 3 else key
    plan = _check(query, shared, value, index, where)
    sum_heads = checks.check_flag("read", "sum_heads", sum_heads)
    residual = checks.check_flag("read", "residual", residual)
    if residual and not (sum_heads and query.size(1) == 1 and query.size(2) == value.size(-1)):
        raise ValueError(
            f"read: residual needs sum_heads=True and one query of width {value.size(-1)} per node, but "
            f"sum_heads={sum_heads} and query has shape {tuple(query.shape)}. Pass [nodes, 1, {value.size(-1)}]."
        )
    return read_planned(query, shared, value, plan, where=where, sum_heads=sum_heads, residual=residual)


def read_planned(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: Plan,
    *,
    where: Tensor | None = None,
    sum_heads: bool = False,
    residual: bool = False,
) -> Tensor:
    """Compute :func:`read` of checked arguments; shared keys may lack the graphs axis."""
    key = key.unsqueeze(0) if key.dim() == 3 else key
    heads = value.size(2)
    folded = sum_heads and query.size(1) == 1
    if query.size(1) != heads and not folded:
        query = query.expand(-1, heads, -1)
    ops = backend.select(plan, query, key, value)
    with full_precision(query.device):
        context = ops.read(query, key, value, where, plan, folded, residual)
    return context.sum(dim=1, keepdim=True) if sum_heads and not folded else context


def read_scored(ops: backend.ScoredOps, scores: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """Compute :func:`read`, with heads summed, of precomputed scores ``[nodes, slots * heads]``."""
    with full_precision(scores.device):
        return ops.read_scored(scores, value.to(scores.dtype), plan)


def read_weights(
    query: Float[Tensor, "nodes #heads dim"],
    key: Float[Tensor, "..."],
    index: Int[Tensor, " nodes"] | Plan | None = None,
) -> Float[Tensor, "nodes slots heads"]:
    """Return the attention weights of a read, which sum to one over the slots. For inspection.

    Cost: one of the two products of :func:`read`, and memory for ``nodes * slots * heads`` numbers.
    """
    _check_weights(query, key, index)
    if key.dim() == 4 and not torch.compiler.is_compiling() and key.size(0) == 1:
        key = key[0]  # shared by all graphs, as in `read`
    if key.dim() == 4:
        ids = index.batch if isinstance(index, Plan) else index
        checks.check_one_graph("read_weights", "key", key.size(0), ids)
    plan = make_plan(
        "read_weights",
        index if key.dim() == 4 else None,
        num_nodes=query.size(0),
        num_graphs=key.size(0) if key.dim() == 4 else None,
        name="index",
        of="query",
        count_name="key.size(0)",
        device=query.device,
    )
    scores = slot_scores(key, query, plan, heads_first=True)
    weights = softmax_over_slots(scores.flatten(1), groups=key.size(-2))
    return weights.view_as(scores).transpose(1, 2)


def _check_weights(query: Tensor, key: Tensor, index: Tensor | Plan | None) -> None:
    checks.check_tensor("read_weights", "key", key)
    _check_scores("read_weights", query, key, "slots heads dim" if key.dim() == 3 else "graphs slots heads dim")
    if query.size(1) not in (1, key.size(-2)):
        raise ValueError(
            f"read_weights: query has {query.size(1)} heads but key has {key.size(-2)}. Pass as many, or one that is "
            "shared by all."
        )
    ids = index.batch if isinstance(index, Plan) else index
    checks.check_device("read_weights", query=query, index=ids)
    # Under tracing the number of graphs may be symbolic and cannot be compared.
    if ids is None or torch.compiler.is_compiling():
        return
    if key.dim() == 3 or key.size(0) == 1:  # shared by all graphs
        checks.check_ids("read_weights", "index", ids, query.size(0))
    else:
        nodes, graphs, names = query.size(0), key.size(0), {"name": "index", "of": "query", "count_name": "key.size(0)"}
        make_plan("read_weights", index, None, nodes, graphs, device=query.device, **names)


def _check_scores(who: str, query: Tensor, key: Tensor, axes: str) -> None:
    """Check that query and key have the same width; ``axes`` are the axes of the key."""
    checks.check_rank(who, "query", query, "nodes heads dim")
    checks.check_rank(who, "key", key, axes)
    checks.check_memory(who, "key", key)
    checks.check_floating(who, query=query, key=key)
    checks.check_device(who, query=query, key=key)
    if key.size(-1) != query.size(-1):
        raise ValueError(
            f"{who}: key has width {key.size(-1)} but query has {query.size(-1)}. Project both to one width."
        )


def _check(query: Tensor, key: Tensor, value: Tensor, index: Tensor | Plan | None, where: Tensor | None) -> Plan:
    """Check the arguments of a read and return the plan of the batch."""
    _check_scores("read", query, key, "graphs slots heads dim")
    checks.check_rank("read", "value", value, "graphs slots heads vdim")
    checks.check_floating("read", value=value)
    ids = index.batch if isinstance(index, Plan) else index
    checks.check_device("read", query=query, value=value, index=ids, where=where)
    checks.check_mask("read", "where", where, query.size(0))
    # Under tracing the number of graphs may be symbolic and cannot be compared.
    other_graphs = not torch.compiler.is_compiling() and key.size(0) not in (1, value.size(0))
    if key.shape[1:3] != value.shape[1:3] or other_graphs:
        raise ValueError(
            f"read: key has (graphs, slots, heads) = {tuple(key.shape[:3])} but value has {tuple(value.shape[:3])}. "
            "Pass one key for each value, or keys without a graphs axis, shared by all graphs."
        )
    if query.size(1) not in (1, value.size(2)):
        raise ValueError(
            f"read: query has {query.size(1)} heads but value has {value.size(2)}. Pass as many, or one that is "
            "shared by all."
        )
    return make_plan(
        "read",
        index,
        num_nodes=query.size(0),
        num_graphs=value.size(0),
        name="index",
        of="query",
        count_name="value.size(0)",
        device=query.device,
    )


def slot_scores(
    slots: Float[Tensor, "*graphs slots heads dim"],
    nodes: Float[Tensor, "nodes #heads dim"],
    plan: Plan,
    *,
    heads_first: bool = False,
) -> Float[Tensor, "nodes _ _"]:
    """Return ``[nodes, slots, heads]`` dot products, or ``[nodes, heads, slots]``; float32 for half inputs.

    Slots without a graphs axis are shared by all graphs, a heads axis of one by all heads. Slots are gathered per node
    only if graph sizes cannot be read, or if the plain back end computes graphs of very uneven sizes.
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
        scores = backend.select(plan, table, nodes).scores(table, nodes, plan)
    if nodes.size(1) == 1:
        return scores.view(nodes.size(0), *rows.shape[-3:-1])
    return scores if heads_first else scores.transpose(1, 2)
