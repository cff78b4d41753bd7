"""Nodes -> slots: the write, its attention weights, and the competition of slots for nodes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mooring.ops import backend, checks
from mooring.ops.plan import Plan, make_plan
from mooring.ops.read import slot_scores
from mooring.ops.state import SlotState, all_neginf, check_state, finite_or_zero, full_precision, statistics_dtype


def write(
    query: Float[Tensor, "*graphs slots heads dim"],
    key: Float[Tensor, "nodes #heads dim"],
    value: Float[Tensor, "nodes #heads vdim"],
    index: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    num_graphs: int | None = None,
    log_weight: Float[Tensor, "nodes *rows"] | None = None,
    where: Bool[Tensor, " nodes"] | None = None,
    null_logit: Float[Tensor, " heads"] | None = None,
) -> SlotState:
    r"""Compute the two sufficient statistics of every slot from slot queries and the nodes of each graph.

    .. math::
        s_i = q^\top k_i + \log w_i, \qquad
        \log Z = \log \sum_i e^{s_i}, \qquad
        \mu = \frac{1}{Z} \sum_i e^{s_i} v_i

    Paper: ``eq:slotread``, ``prop:mass``. The score is the dot product; the caller scales it.

    Args:
        query: slot queries ``[slots, heads, dim]``, shared by all graphs, or ``[graphs, slots, heads, dim]``.
        key, value: keys and values of the nodes. A heads axis of one is shared by all heads and computed once; passing
            the same tensor as key and value saves a pass over it.
        index: graph id of each node, in any order, or the :class:`~mooring.ops.Plan` of the batch; None if all nodes
            are one graph.
        num_graphs: number of graphs, required if the last graphs are empty; else taken from ``index``.
        log_weight: ``[nodes]``, the logarithm of each node's multiplicity; ``log c`` equals c copies, ``-inf`` excludes
            a node, even one that contains NaN. Or ``[nodes, slots, heads]`` (each of slots and heads may be 1), a bias
            added to the scores; ``-inf`` if a node must not write to a slot.
        where: boolean mask of the nodes that write; the others are skipped. None means all.
        null_logit: ``[heads]``, the score of a null slot; the slots and the null slot compete for the nodes: the log
            weight of :func:`compete` is added. None means no competition.

    Shapes: content ``[graphs, slots, heads, vdim]``, log_mass ``[graphs, slots, heads]``; float32 for half inputs.

    Nothing written (an empty graph, every weight ``-inf``): content 0, log_mass ``-inf``, gradients zero.

    Cost: ``O(nodes * slots * heads * (dim + vdim))`` operations; memory beyond inputs and outputs does not grow with
    the number of nodes.

    >>> key = torch.zeros(3, 1, 2)
    >>> state = write(torch.ones(1, 1, 2), key, torch.tensor([[[1.0]], [[2.0]], [[6.0]]]))
    >>> state.content.item(), round(state.log_mass.exp().item())
    (3.0, 3)
    """
    plan = _check(query, key, value, index, num_graphs, log_weight, where, null_logit)
    return write_planned(query, key, value, plan, log_weight=log_weight, where=where, null_logit=null_logit)


def write_planned(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: Plan,
    *,
    log_weight: Tensor | None = None,
    where: Tensor | None = None,
    null_logit: Tensor | None = None,
) -> SlotState:
    """Compute :func:`write` of checked arguments."""
    *graphs, slots, heads, dim = query.shape
    width = value.size(-1)
    bias = log_weight[:, None, None] if log_weight is not None and log_weight.dim() == 1 else log_weight
    if null_logit is not None:
        excluded = None if where is None else ~where
        bias = _add(bias, compete_planned(query, _zero_excluded(key, bias, excluded), plan, null_logit))
    if key.size(1) == value.size(1) == 1:
        folded = query.reshape(*graphs, 1, slots * heads, dim)
        if bias is not None and bias.shape[1:] != (1, 1):
            bias = bias.expand(-1, slots, heads).reshape(key.size(0), 1, slots * heads)
    else:
        folded = query.transpose(-3, -2).reshape(*graphs, key.size(1), heads * slots // key.size(1), dim)
        bias = None if bias is None else bias.transpose(1, 2)  # [nodes, heads, slots]
    values = None if value is key else value if key.size(1) == value.size(1) == 1 else value.expand(-1, heads, -1)
    ops = backend.select(plan, folded, key, values, bias)
    with full_precision(key.device):
        content, log_mass = ops.write(folded, key, values, bias, where, plan)
    shape = (plan.num_graphs, slots, heads)
    return SlotState(content.view(*shape, width), log_mass.view(shape))


def write_scored(
    ops: backend.ScoredOps,
    scores: Tensor,
    value: Tensor,
    shape: tuple[int, int],
    plan: Plan,
    *,
    log_weight: Tensor | None = None,
    where: Tensor | None = None,
    null_logit: Tensor | None = None,
) -> SlotState:
    """Compute :func:`write` of precomputed scores ``[nodes, slots * heads]``, with values shared by all heads.

    Args:
        ops: the back end that computed the scores.
        shape: slots and heads.
        others: as in :func:`write`; scores and values of nodes that do not write must be finite.
    """
    masked = log_weight is not None or where is not None
    if null_logit is not None:
        total = scores.unflatten(1, shape).logsumexp(dim=1, keepdim=True)
        share = -torch.logaddexp(total, null_logit.to(total.dtype))
        scores = scores + share.expand(-1, *shape).flatten(1)
    if log_weight is not None:
        bias = log_weight.to(scores.dtype)
        scores = scores + (bias.unsqueeze(1) if bias.dim() == 1 else bias.expand(-1, *shape).flatten(1))
    if where is not None:
        scores = scores.masked_fill(~where.unsqueeze(1), float("-inf"))
    with full_precision(scores.device):
        content, log_mass = ops.write_scored(scores, value.to(scores.dtype), plan, may_be_empty=masked)
    axes = (plan.num_graphs, *shape)
    return SlotState(content.view(*axes, value.size(1)), log_mass.view(axes))


def write_weights(
    state: SlotState,
    query: Float[Tensor, "*graphs slots heads dim"],
    key: Float[Tensor, "nodes #heads dim"],
    index: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    log_weight: Float[Tensor, "nodes *rows"] | None = None,
    null_logit: Float[Tensor, " heads"] | None = None,
    alone: bool = True,
) -> Float[Tensor, "nodes slots heads"]:
    r"""Return the attention weights of a write, :math:`e^{s_i} / Z`; they sum to one over the nodes of a graph.

    For inspection: unlike :func:`write` it materialises ``nodes * slots * heads`` numbers.

    Args:
        state: the state that :func:`write` returned, possibly merged with others.
        query, key, index, log_weight, null_logit: as in :func:`write`.
        alone: whether the state contains only these nodes. If other states were merged into it, pass False; the weights
            then sum to the share of these nodes.
    """
    bias = _check_weights(state, query, key, index, log_weight)
    alone = checks.check_flag("write_weights", "alone", alone)
    key = _zero_excluded(key, bias)
    if null_logit is not None:
        bias = _add(bias, compete(query, key, index, null_logit=null_logit))
    graphs = state.log_mass.size(0)
    checks.check_one_graph("write_weights", "state", graphs, index.batch if isinstance(index, Plan) else index)
    plan = make_plan(
        "write_weights",
        index,
        num_nodes=key.size(0),
        num_graphs=graphs,
        name="index",
        of="key",
        count_name="state.log_mass.size(0)",
        device=key.device,
    )
    scores = slot_scores(query, key, plan)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    weights = (scores - _gather_per_node(finite_or_zero(state.log_mass), plan)).exp()
    if not alone:
        return weights
    # Already sums to 1 up to rounding; renormalise because a huge log_mass loses digits.
    if plan.batch is None:
        total = weights.sum(dim=0, keepdim=True)
    else:
        total = torch.zeros_like(state.log_mass).index_add(0, plan.batch, weights)
    return weights / _gather_per_node(torch.where(total == 0, 1.0, total), plan)


def _gather_per_node(rows: Tensor, plan: Plan) -> Tensor:
    """Gather ``[graphs, ...]`` to ``[nodes, ...]``; the row of a single graph is broadcast."""
    return rows if plan.batch is None else rows.index_select(0, plan.batch)


def compete(
    query: Float[Tensor, "*graphs slots heads dim"],
    key: Float[Tensor, "nodes #heads dim"],
    index: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    null_logit: Float[Tensor, " heads"] | None = None,
) -> Float[Tensor, "nodes 1 heads"]:
    r"""Return the log weight per node and head with which slots compete for nodes, for :func:`write`.

    .. math::
        \log w_i = -\log \Big( e^{s_\varnothing} + \sum_m e^{q_m^\top k_i} \Big), \qquad
        e^{q_m^\top k_i + \log w_i} = \operatorname{softmax}_{m, \varnothing}(q^\top k_i)_m

    With this log weight the masses of the slots are soft counts: each node distributes one unit over the slots and a
    null slot that is never read. Merging and streaming work as with any log weight. To use multiplicities as well, add
    their logarithm.

    Args:
        query, key, index: as in :func:`~mooring.ops.write`.
        null_logit: score of the null slot in each head; None for no null slot, so that every node is written in full.

    Cost: ``O(nodes * slots * heads * dim)``, and memory for ``nodes * slots * heads`` numbers.

    >>> query, key = torch.randn(3, 1, 4), torch.randn(5, 1, 4)
    >>> weight = compete(query, key)
    >>> (torch.einsum("mhd,nhd->nmh", query, key) + weight).exp().sum(dim=1).allclose(torch.ones(5, 1))
    True
    """
    _check_scores("compete", query, key)
    check_null_logit("compete", null_logit, query.size(-2))
    checks.check_device("compete", key=key, null_logit=null_logit)
    # Trailing empty graphs are not in the index; queries with a graphs axis give the number of graphs.
    graphs = query.size(0) if query.dim() == 4 and not isinstance(index, Plan) else None
    plan = make_plan(
        "compete", index, num_nodes=key.size(0), num_graphs=graphs, name="index", of="key", device=key.device
    )
    return compete_planned(query, key, plan, null_logit)


def compete_planned(query: Tensor, key: Tensor, plan: Plan, null_logit: Tensor | None) -> Tensor:
    """Compute :func:`compete` of checked arguments."""
    scores = slot_scores(query, key, plan)
    total = scores.logsumexp(dim=1, keepdim=True)
    return -total if null_logit is None else -torch.logaddexp(total, null_logit.to(total.dtype))


def check_null_logit(who: str, null_logit: Tensor | None, heads: int) -> None:
    """Check that there is one score per head: another shape would broadcast over nodes or slots.

    A learned score may be NaN: then training has diverged, which shows in the loss.
    """
    if null_logit is None:
        return
    checks.check_floating(who, null_logit=null_logit)
    if tuple(null_logit.shape) != (heads,):
        raise ValueError(
            f"{who}: null_logit has shape {tuple(null_logit.shape)} but one score for each of {heads} heads was "
            "expected."
        )
    constant = not null_logit.requires_grad
    if constant and checks.checks_values() and checks.readable(null_logit) and bool(null_logit.isnan().any()):
        raise ValueError(f"{who}: null_logit is NaN in some head. Pass a score, or -inf for no null slot.")


def _zero_excluded(key: Tensor, bias: Tensor | None, excluded: Tensor | None = None) -> Tensor:
    """Zero the keys of excluded nodes: they may be NaN, which must not reach weights or gradients."""
    if bias is not None:
        excluded = all_neginf(bias) if excluded is None else excluded | all_neginf(bias)
    return key if excluded is None else key.masked_fill(excluded[:, None, None], 0.0)


def _add(bias: Tensor | None, log_weight: Tensor) -> Tensor:
    return log_weight if bias is None else bias.to(log_weight.dtype) + log_weight


def _check_scores(who: str, query: Tensor, key: Tensor) -> None:
    checks.check_tensor(who, "query", query)
    checks.check_rank(who, "query", query, "graphs slots heads dim" if query.dim() == 4 else "slots heads dim")
    checks.check_memory(who, "query", query)
    checks.check_rank(who, "key", key, "nodes heads dim")
    checks.check_floating(who, query=query, key=key)
    checks.check_device(who, key=key, query=query)
    if key.size(-1) != query.size(-1):
        raise ValueError(
            f"{who}: key has width {key.size(-1)} but query has {query.size(-1)}. Project both to one width."
        )
    _check_heads(who, "key", key, query)


def _check_heads(who: str, name: str, tensor: Tensor, query: Tensor) -> None:
    if tensor.size(1) not in (1, query.size(-2)):
        raise ValueError(
            f"{who}: {name} has {tensor.size(1)} heads but query has {query.size(-2)}. "
            "Pass as many, or one that is shared by all."
        )


def _check_weights(
    state: SlotState, query: Tensor, key: Tensor, index: Tensor | Plan | None, log_weight: Tensor | None
) -> Tensor | None:
    """Check the arguments of :func:`write_weights`; return log_weight as ``[nodes, slots or 1, heads or 1]``."""
    who = "write_weights"
    _check_scores(who, query, key)
    check_state(who, "state", state)
    if state.log_mass.shape[1:] != query.shape[-3:-1]:
        raise ValueError(
            f"{who}: state has (slots, heads) = {tuple(state.log_mass.shape[1:])} but query has "
            f"{tuple(query.shape[-3:-1])}. Pass the state that this query wrote."
        )
    ids = index.batch if isinstance(index, Plan) else index
    checks.check_device(who, key=key, state=state.content, index=ids, log_weight=log_weight)
    # Under tracing the number of graphs is symbolic and cannot be compared.
    if ids is not None and not torch.compiler.is_compiling():
        nodes, graphs, names = key.size(0), state.log_mass.size(0), {"name": "index", "of": "key"}
        make_plan(who, index, None, nodes, graphs, device=key.device, count_name="state.log_mass.size(0)", **names)
    return checks.check_log_weight(who, log_weight, key.size(0), (query.size(-3), query.size(-2)), values=False)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | Plan | None,
    num_graphs: int | None,
    log_weight: Tensor | None,
    where: Tensor | None,
    null_logit: Tensor | None,
) -> Plan:
    """Check the arguments of a write and return the plan of the batch."""
    _check_scores("write", query, key)
    checks.check_rank("write", "value", value, "nodes heads vdim")
    checks.check_floating("write", value=value)
    ids = index.batch if isinstance(index, Plan) else index
    others = {"index": ids, "log_weight": log_weight, "where": where, "null_logit": null_logit}
    checks.check_device("write", key=key, value=value, **others)
    if statistics_dtype(value.dtype) != statistics_dtype(key.dtype):
        raise TypeError(
            f"write: value has dtype {checks.short(value.dtype)} but key has {checks.short(key.dtype)}. "
            "Convert one of them, e.g. value.to(key.dtype)."
        )
    checks.check_rows("write", "value", value, key.size(0), "key")
    _check_heads("write", "value", value, query)
    plan = make_plan(
        "write", index, num_nodes=key.size(0), num_graphs=num_graphs, name="index", of="key", device=key.device
    )
    # Under tracing the number of graphs is symbolic and cannot be compared.
    if query.dim() == 4 and not torch.compiler.is_compiling() and query.size(0) != plan.num_graphs:
        raise ValueError(
            f"write: query has {query.size(0)} graphs but the batch has {plan.num_graphs}. Pass one for each graph, or "
            "[slots, heads, dim] for all."
        )
    slots, heads = query.shape[-3:-1]
    checks.check_log_weight("write", log_weight, key.size(0), (slots, heads))
    checks.check_mask("write", "where", where, key.size(0))
    check_null_logit("write", null_logit, heads)
    row_bytes = slots * heads * (value.size(-1) + 1) * statistics_dtype(value.dtype).itemsize
    checks.check_room("write", "num_graphs", plan.num_graphs, row_bytes, key.device)
    return plan
