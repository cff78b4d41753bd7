"""The plain back end: the ops as a few PyTorch calls, without custom autograd functions.

Differentiable to any order and in forward mode; works under ``vmap`` and ``torch.export`` and on every device. If the
sizes of the graphs can be read, the batch is padded and each step is one batched product. Otherwise sums over graphs
are scattered, which needs no sizes but memory for ``nodes * rows * width`` numbers.

Every back end folds the heads of a write into two axes. Heads with separate keys or values are *parts*, each with one
*row* per slot. Heads that share keys and values are rows of a single part. Shapes of the write: query
``[parts, rows, dim]`` or ``[1, parts * rows, dim]``, or either with a graphs axis before it, key
``[nodes, parts or 1, dim]``, value ``[nodes, parts, width]``, log_weight ``[nodes, parts or 1, rows or 1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mooring.ops.plan import Plan
from mooring.ops.state import all_neginf, finite_or_zero, in_forward_mode, statistics_dtype

# Sizes up to which plain is faster than tiles on a CPU. Forward and backward in ms, tiles -> plain, one thread, 8
# slots, width 64:
#   molecules (9 to 25 nodes)  32 of them 6.5 -> 5.3, 64: 9.4 -> 7.3, 256: 29 -> 26, 512: 55 -> 50, 2,048: 224 -> 231
#   128 graphs of 150 nodes 58 -> 63, 8 of 2,000: 42 -> 47, one of 2,000: 7.5 -> 8.3, 128 of skewed sizes 65 -> 1,112
SMALL_GRAPH, SMALL_BATCH = 64, 16_384

# A padded batch has graphs * largest rows. Up to this many per node, batched products are faster than scattered sums.
PLACES_PER_NODE = 4


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Return content ``[graphs, rows, parts, width]`` and log-mass ``[graphs, rows, parts]``; None: values are keys.

    The axis of a single part may be missing from the result.
    """
    dtype = statistics_dtype(key.dtype)
    excluded = excluded_nodes(log_weight, where)
    query, key = query.to(dtype), zero_rows(key.to(dtype), excluded)
    value = key if value is None else zero_rows(value.to(dtype), excluded)
    weighted = log_weight is not None or excluded is not None
    if is_padded(plan) and not weighted and key.size(1) == value.size(1) == 1 and query.dim() == 3:
        return _shared_sums(query, key, value, plan)
    rows = query.size(-3) * query.size(-2) // value.size(1)
    logits = scores(query, key, plan).reshape(key.size(0), value.size(1), rows)
    if log_weight is not None:
        logits = logits + log_weight.to(dtype)
    if excluded is not None:
        logits = logits.masked_fill(excluded, float("-inf"))
    if not is_padded(plan):
        return _scattered_sums(logits, value, plan)
    logits = plan.grid.fill(logits, float("-inf"))
    weights, log_mass = _shares(logits, may_be_empty=weighted or plan.may_have_empty)
    return torch.einsum("glpr,glpw->grpw", weights, plan.grid.fill(value)), log_mass.transpose(1, 2)


def write_scored(scores: Tensor, value: Tensor, plan: Plan, *, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """Return content ``[graphs, rows, width]`` and log-mass ``[graphs, rows]`` of precomputed scores.

    Args:
        scores: ``[nodes, rows]``.
        value: ``[nodes, width]``.
        may_be_empty: whether all scores of a graph may be ``-inf``.
    """
    if not is_padded(plan):
        content, log_mass = _scattered_sums(scores.unsqueeze(1), value.unsqueeze(1), plan)
        return content.squeeze(2), log_mass.squeeze(2)
    weights, log_mass = _shares(plan.grid.fill(scores, float("-inf")), may_be_empty or plan.may_have_empty)
    return torch.bmm(weights.mT, plan.grid.fill(value)), log_mass


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """Return scores ``[nodes, key parts, rows]``; queries are shared, or have a graphs axis."""
    if query.dim() == 3:
        return torch.einsum("nkd,krd->nkr", key, query)
    if is_padded(plan):
        return plan.grid.pick(torch.einsum("glkd,gkrd->glkr", plan.grid.fill(key), query))
    return torch.einsum("nkd,nkrd->nkr", key, query.index_select(0, plan.index))


def _shared_sums(query: Tensor, key: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Compute a write without weights: one matrix product for all scores, with padding masked by its bias."""
    grid = plan.grid
    keys = grid.fill(key.squeeze(1))
    values = keys if value is key else grid.fill(value.squeeze(1))
    logits = torch.addmm(grid.absent(key), keys.flatten(0, 1), query.squeeze(0).t())
    weights, log_mass = _shares(logits.view(grid.graphs, grid.length, logits.size(1)), may_be_empty=plan.may_have_empty)
    return torch.bmm(weights.mT, values), log_mass


def _shares(logits: Tensor, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """Return the softmax over the nodes of each graph, and its log-mass, of logits ``[graphs, length, ...]``.

    For an empty graph both a plain softmax and the gradient of a plain logsumexp would be NaN.
    """
    if not may_be_empty:
        return logits.softmax(dim=1), logits.logsumexp(dim=1)
    # amax needs at least one row. Under tracing the number of rows may be symbolic, so one is always appended.
    rows = logits.detach()
    if torch.compiler.is_compiling() or not logits.size(1):
        rows = torch.nn.functional.pad(rows, (0, 0) * (rows.dim() - 2) + (0, 1), value=float("-inf"))
    top = rows.amax(dim=1, keepdim=True)
    empty, top = top.isneginf(), finite_or_zero(top)
    # Relative to the largest: the gradient of logsumexp is exp(logit - log_mass). For huge logits log_mass rounds to
    # the largest one, and the gradient would be one for every node with that logit.
    logits = (logits - top).masked_fill(empty, 0.0)
    weights = logits.softmax(dim=1).masked_fill(empty, 0.0)
    log_mass = (logits.logsumexp(dim=1, keepdim=True) + top).masked_fill(empty, float("-inf"))
    return weights, log_mass.squeeze(1)


def _scattered_sums(scores: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Return content and log-mass without reading the sizes of the graphs."""
    index, graphs = plan.index, plan.num_graphs
    lowest = scores.new_full((graphs, *scores.shape[1:]), float("-inf"))
    spread = index[:, None, None].expand_as(scores)
    top = finite_or_zero(lowest.scatter_reduce(0, spread, scores.detach(), "amax"))
    weights = (scores - top.index_select(0, index)).exp()
    mass = torch.zeros_like(lowest).index_add(0, index, weights)
    outer = torch.einsum("npr,npw->nrpw", weights, value)
    total = outer.new_zeros((graphs, *outer.shape[1:])).index_add(0, index, outer)
    # where() both inside and outside the log: the branch that is not selected would have a NaN gradient.
    empty = mass == 0
    mass = torch.where(empty, 1.0, mass)
    log_mass = torch.where(empty, float("-inf"), mass.log() + top)
    return total / mass.transpose(1, 2).unsqueeze(-1), log_mass.transpose(1, 2)


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """Return the context ``[nodes, heads, width]``, or ``[nodes, 1, width]`` with ``sum_heads``.

    Args:
        query: ``[nodes, heads, dim]``; one head with ``sum_heads``.
        key, value: ``[graphs or 1, slots, heads, dim]`` and ``[graphs, slots, heads, width]``.
    """
    dtype = statistics_dtype(query.dtype)
    excluded = None if where is None else ~where[:, None, None]
    queries, key, value = zero_rows(query.to(dtype), excluded), key.to(dtype), value.to(dtype)
    if is_padded(plan):
        grid = plan.grid
        keys = key if key.size(0) == grid.graphs else key.expand(grid.graphs, -1, -1, -1)
        context = grid.pick(_mix(grid.fill(queries), keys, value, sum_heads))
    else:
        # Shared keys are expanded without a comparison: under tracing the number of graphs may be symbolic.
        keys = key.expand(value.size(0), -1, -1, -1).index_select(0, plan.index)
        context = _mix(queries.unsqueeze(1), keys, value.index_select(0, plan.index), sum_heads).squeeze(1)
    if residual:
        context = context + queries
    if excluded is None:
        return context
    return torch.where(excluded, query.to(dtype) if residual else 0.0, context)


def read_scored(scores: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """Return the context ``[nodes, width]``, heads summed, of precomputed scores.

    Args:
        scores: ``[nodes, slots * heads]``.
        value: ``[graphs, slots, heads, width]``.
    """
    # Softmax over the first axis: on a CPU it is slow over a short last axis.
    by_slot = scores.t().contiguous().unflatten(0, (value.size(1), value.size(2)))
    weights, values = by_slot.softmax(dim=0).flatten(0, 1).t(), value.flatten(1, 2)
    if is_padded(plan):
        return plan.grid.pick(torch.bmm(plan.grid.fill(weights), values))
    return torch.bmm(weights.unsqueeze(1), values.index_select(0, plan.index)).squeeze(1)


def _mix(query: Tensor, key: Tensor, value: Tensor, sum_heads: bool) -> Tensor:
    """Return the contexts ``[graphs, length, heads, width]`` of padded queries ``[graphs, length, heads, dim]``.

    The softmax is over a middle axis: on a CPU it is slow over the first and the last.
    """
    graphs, _, heads, _ = query.shape
    slots = key.size(1)
    if sum_heads:
        query, key, value = query.squeeze(2), key.flatten(1, 2), value.flatten(1, 2)
    else:
        query, key, value = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value))
    logits = torch.bmm(key, query.mT)
    weights = logits.unflatten(1, (slots, -1)).softmax(dim=1).view_as(logits)
    context = torch.bmm(weights.mT, value)
    return context.unsqueeze(2) if sum_heads else context.unflatten(0, (graphs, heads)).transpose(1, 2)


def film(
    x: Tensor, context: Tensor, node_weight: Tensor, node_bias: Tensor, film_weight: Tensor, film_bias: Tensor
) -> Tensor:
    """Compute :func:`mooring.ops.film` by its formula."""
    hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, node_weight, node_bias) + context)
    gamma, beta = torch.nn.functional.linear(hidden, film_weight, film_bias).tanh().chunk(2, dim=-1)
    return torch.addcmul(x, gamma, x, value=0.5) + beta


def is_padded(plan: Plan) -> bool:
    """Return whether the batch is padded: graph sizes can be read and are similar enough."""
    if plan.batch is None:
        return True
    if not plan.is_concrete:
        return False
    return plan.num_graphs * plan.largest <= PLACES_PER_NODE * plan.num_nodes


def is_small(plan: Plan) -> bool:
    """Return whether plain is faster than tiles on a CPU: many small graphs of similar size."""
    if plan.batch is None or not 0 < plan.num_nodes <= SMALL_BATCH:
        return False
    return plan.num_graphs <= plan.num_nodes and plan.largest <= SMALL_GRAPH and is_padded(plan)


def excluded_nodes(log_weight: Tensor | None, where: Tensor | None) -> Tensor | None:
    """Return a mask ``[nodes, 1, 1]`` of the nodes that are masked by ``where`` or have weight zero everywhere."""
    masked = None if where is None else ~where[:, None, None]
    if log_weight is None:
        return masked
    weightless = all_neginf(log_weight)[:, None, None]
    return weightless if masked is None else masked | weightless


def zero_rows(tensor: Tensor, mask: Tensor | None) -> Tensor:
    """Zero the rows of excluded nodes: they may contain NaN, and 0 * NaN is NaN."""
    return tensor if mask is None else tensor.masked_fill(mask, 0.0)


def needs_pytorch(tensor: Tensor) -> bool:
    """Return whether autograd must see every step: the tensor has no data, is under ``vmap``, or has a tangent."""
    if torch.compiler.is_compiling():
        return in_forward_mode()
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or torch._C._are_functorch_transforms_active():
        return True
    # is_grads_batched and vectorize=True use a vmap without torch.func.
    if torch._C._functorch.is_legacy_batchedtensor(tensor):
        return True
    return in_forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None


def needs_plain_backward(grads: Sequence[Tensor]) -> bool:
    """Return whether a backward must run in PyTorch operators: double backward, ``vmap``, or a tangent."""
    return torch.is_grad_enabled() or any(needs_pytorch(grad) for grad in grads)


def gradients(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return the gradient of each input that requires one, by autograd through ``function``; None for the others.

    One input may depend on another: competition computes log weights from the keys, and a context depends on the nodes
    that it modulates. The function is applied to aliases, so that no gradient flows from one input into another.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        aliases = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        # A mass that depends on no score, e.g. of a plain mean, is a constant.
        pairs = [(out, grad) for out, grad in zip(function(*aliases), grads, strict=True) if out.requires_grad]
    leaves = [alias for alias in aliases if alias is not None and alias.requires_grad]
    outputs, output_grads = [out for out, _ in pairs], [grad.view_as(out) for out, grad in pairs]
    leaf_grads = iter(torch.autograd.grad(outputs, leaves, output_grads, create_graph=create_graph, allow_unused=True))
    return [next(leaf_grads) if alias is not None and alias.requires_grad else None for alias in aliases]


def empty_if_none(grad: Tensor | None, like: Tensor) -> Tensor:
    """Return an empty tensor in place of None: a custom op must return tensors."""
    return like.new_empty(0) if grad is None else grad


def blank_gradients(inputs: Sequence[Tensor | None], needed: Sequence[bool], like: Tensor) -> list[Tensor]:
    """Return uninitialised gradients for a fake kernel; only their shapes and dtypes count."""
    return [
        empty_if_none(None if tensor is None or not need else torch.empty_like(tensor), like)
        for tensor, need in zip(inputs, needed, strict=True)
    ]


def only_needed(grads: Sequence[Tensor], needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Replace the gradients that are not needed by None."""
    return tuple(grad if need else None for grad, need in zip(grads, needed, strict=True))
