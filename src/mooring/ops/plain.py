"""The plain back end: the ops as a few PyTorch calls, with nothing of our own between them and autograd.

Differentiable to any order and in forward mode, vectorised by ``vmap``, traced by ``torch.export``, and at home on
every device. Where the sizes of the graphs may be read, the batch is padded and each step is one batched product;
elsewhere sums over graphs are scattered, which needs no sizes but room for ``nodes * rows * width`` numbers.

Shapes as in :mod:`mooring.ops.tiles`: query ``[parts, rows, dim]`` or ``[1, parts * rows, dim]``, or either with a
graphs axis before it, key ``[nodes, parts or 1, dim]``, value ``[nodes, parts, width]``, log_weight
``[nodes, parts or 1, rows or 1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mooring.ops.heads import softmax_over_slots
from mooring.ops.plan import Plan
from mooring.ops.state import nothing_as_zero, statistics_dtype, weightless

# A padded batch takes graphs * largest places. Up to this many per node, batched products beat scattered sums.
PLACES_PER_NODE = 4


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Content ``[graphs, rows, parts, width]`` and log-mass ``[graphs, rows, parts]``; values default to keys."""
    dtype = statistics_dtype(key.dtype)
    absent = _absent(log_weight, where)
    key = _zeroed(key.to(dtype), absent)
    value = key if value is None else _zeroed(value.to(dtype), absent)
    rows = query.size(-3) * query.size(-2) // value.size(1)
    logits = scores(query.to(dtype), key, plan).reshape(key.size(0), value.size(1), rows)
    if log_weight is not None:
        logits = logits + log_weight.to(dtype)
    if absent is not None:
        logits = logits.masked_fill(absent, float("-inf"))
    if is_padded(plan):
        top, mass, total = _padded_sums(logits, value, plan)
    else:
        top, mass, total = _scattered_sums(logits, value, plan)
    # where(...) inside and outside: the branch not taken would have a NaN gradient.
    empty = mass == 0
    mass = torch.where(empty, 1.0, mass)
    log_mass = torch.where(empty, float("-inf"), mass.log() + top)
    return total / mass.transpose(1, 2).unsqueeze(-1), log_mass.transpose(1, 2)


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """``[nodes, key parts, rows]``, of queries that all graphs share or of each graph's own."""
    if query.dim() == 3:
        return torch.einsum("nkd,krd->nkr", key, query)
    if is_padded(plan):
        return plan.grid.pick(torch.einsum("glkd,gkrd->glkr", plan.grid.fill(key, 0.0), query))
    return torch.einsum("nkd,nkrd->nkr", key, query.index_select(0, plan.index))


def _padded_sums(scores: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """The largest score of each graph (or zero), and relative to it masses and weighted totals."""
    scores, value = plan.grid.fill(scores, float("-inf")), plan.grid.fill(value, 0.0)
    highest = scores.detach().amax(dim=1) if scores.size(1) else scores.detach().sum(dim=1)
    top = nothing_as_zero(highest)
    weights = (scores - top.unsqueeze(1)).exp()
    return top, weights.sum(dim=1), torch.einsum("glpr,glpw->grpw", weights, value)


def _scattered_sums(scores: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`_padded_sums`, without the sizes of the graphs."""
    index, graphs = plan.index, plan.num_graphs
    lowest = scores.new_full((graphs, *scores.shape[1:]), float("-inf"))
    spread = index[:, None, None].expand_as(scores)
    top = nothing_as_zero(lowest.scatter_reduce(0, spread, scores.detach(), "amax"))
    weights = (scores - top.index_select(0, index)).exp()
    mass = torch.zeros_like(lowest).index_add(0, index, weights)
    outer = torch.einsum("npr,npw->nrpw", weights, value)
    return top, mass, outer.new_zeros((graphs, *outer.shape[1:])).index_add(0, index, outer)


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, groups: int, residual: bool
) -> Tensor:
    """Context ``[nodes, parts, width]`` of query ``[nodes, parts, dim]``, key ``[graphs or 1, parts, rows, dim]`` and
    value ``[graphs, parts, rows, width]``; the rows hold ``groups`` softmaxes, whose contexts are added up."""
    dtype = statistics_dtype(query.dtype)
    absent = None if where is None else ~where[:, None, None]
    queries, key, value = _zeroed(query.to(dtype), absent), key.to(dtype), value.to(dtype)
    if is_padded(plan):
        grid = plan.grid
        context = grid.pick(_mix(grid.fill(queries, 0.0), key, value, groups))
    else:
        # Keys that all graphs share too: a traced graph may not know how many there are, and then must not ask.
        own = key.expand(value.size(0), -1, -1, -1).index_select(0, plan.index)
        context = _mix(queries.unsqueeze(1), own, value.index_select(0, plan.index), groups).squeeze(1)
    if residual:
        context = context + queries
    if absent is None:
        return context
    return torch.where(absent, query.to(dtype) if residual else 0.0, context)


def _mix(query: Tensor, key: Tensor, value: Tensor, groups: int) -> Tensor:
    """``[graphs, length, parts, dim]`` and the slots of each graph -> ``[graphs, length, parts, width]``."""
    key = key.expand(query.size(0), -1, -1, -1)
    weights = softmax_over_slots(query.transpose(1, 2) @ key.mT, groups)
    return (weights @ value).transpose(1, 2)


def film(
    x: Tensor, context: Tensor, node_weight: Tensor, node_bias: Tensor, film_weight: Tensor, film_bias: Tensor
) -> Tensor:
    """:func:`mooring.ops.film` as it is written down."""
    hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, node_weight, node_bias) + context)
    gamma, beta = torch.nn.functional.linear(hidden, film_weight, film_bias).tanh().chunk(2, dim=-1)
    return torch.addcmul(x, gamma, x, value=0.5) + beta


def gradients(
    function: Callable[[], Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients that can be differentiated again: those of the same function as PyTorch sees it."""
    wanted = [one for one in inputs if one is not None and one.requires_grad]
    # A mass that depends on no score, as of a plain mean, is a constant.
    pairs = [(output, grad) for output, grad in zip(function(), grads, strict=True) if output.requires_grad]
    outputs, grads = [output for output, _ in pairs], [grad for _, grad in pairs]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if one is not None and one.requires_grad else None for one in inputs]


def is_padded(plan: Plan) -> bool:
    """Whether the sizes of the graphs may be read, and are even enough."""
    if plan.batch is None:
        return True
    if not plan.is_concrete:
        return False
    return plan.num_graphs * plan.largest <= PLACES_PER_NODE * plan.num_nodes


def _absent(log_weight: Tensor | None, where: Tensor | None) -> Tensor | None:
    """``[nodes, 1, 1]``, True for nodes that are left out: masked, or of weight zero everywhere."""
    absent = None if where is None else ~where[:, None, None]
    if log_weight is None:
        return absent
    gone = weightless(log_weight)[:, None, None]
    return gone if absent is None else absent | gone


def _zeroed(tensor: Tensor, absent: Tensor | None) -> Tensor:
    """Zero at nodes that are left out: they may hold NaN, which times zero is NaN."""
    return tensor if absent is None else tensor.masked_fill(absent, 0.0)
