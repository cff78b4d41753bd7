"""The plain back end: the ops as a few PyTorch calls, with nothing of our own between them and autograd.

Differentiable to any order and in forward mode, vectorised by ``vmap``, traced by ``torch.export``, and at home on
every device. Where the sizes of the graphs may be read, the batch is padded and each step is one batched product;
elsewhere sums over graphs are scattered, which needs no sizes but room for ``nodes * rows * width`` numbers.

Shapes of the write as in :mod:`mooring.ops.tiles`: query ``[parts, rows, dim]`` or ``[1, parts * rows, dim]``, or
either with a graphs axis before it, key ``[nodes, parts or 1, dim]``, value ``[nodes, parts, width]``, log_weight
``[nodes, parts or 1, rows or 1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mooring.ops.plan import Plan
from mooring.ops.state import in_forward_mode, nothing_as_zero, statistics_dtype, weightless

# Where plain calls beat tiles on a CPU. One thread, 8 slots, width 64, forward and backward, tiles -> plain in ms:
#   molecules (9 to 25 nodes)  32 of them 6.5 -> 5.3, 64: 9.4 -> 7.3, 256: 29 -> 26, 512: 55 -> 50, 2,048: 224 -> 231
#   128 graphs of 150 nodes 58 -> 63, 8 of 2,000: 42 -> 47, one of 2,000: 7.5 -> 8.3, 128 of skewed sizes 65 -> 1,112
SMALL_GRAPH, SMALL_BATCH = 64, 16_384

# A padded batch takes graphs * largest places. Up to this many per node, batched products beat scattered sums.
PLACES_PER_NODE = 4


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Content ``[graphs, rows, parts, width]`` and log-mass ``[graphs, rows, parts]``; values default to keys.

    The axis of a single part may be left out.
    """
    dtype = statistics_dtype(key.dtype)
    absent = left_out(log_weight, where)
    query, key = query.to(dtype), zeroed(key.to(dtype), absent)
    value = key if value is None else zeroed(value.to(dtype), absent)
    weighed = log_weight is not None or absent is not None
    if is_padded(plan) and not weighed and key.size(1) == value.size(1) == 1 and query.dim() == 3:
        return _shared_sums(query, key, value, plan)
    rows = query.size(-3) * query.size(-2) // value.size(1)
    logits = scores(query, key, plan).reshape(key.size(0), value.size(1), rows)
    if log_weight is not None:
        logits = logits + log_weight.to(dtype)
    if absent is not None:
        logits = logits.masked_fill(absent, float("-inf"))
    if not is_padded(plan):
        return _scattered_sums(logits, value, plan)
    logits = plan.grid.fill(logits, float("-inf"))
    weights, log_mass = _shares(logits, may_be_empty=weighed or plan.may_have_empty)
    return torch.einsum("glpr,glpw->grpw", weights, plan.grid.fill(value)), log_mass.transpose(1, 2)


def write_scored(scores: Tensor, value: Tensor, plan: Plan, *, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """Content ``[graphs, rows, width]`` and log-mass ``[graphs, rows]`` of scores ``[nodes, rows]`` and value
    ``[nodes, width]``; ``may_be_empty`` says that some graph may have no score above ``-inf``."""
    if not is_padded(plan):
        content, log_mass = _scattered_sums(scores.unsqueeze(1), value.unsqueeze(1), plan)
        return content.squeeze(2), log_mass.squeeze(2)
    weights, log_mass = _shares(plan.grid.fill(scores, float("-inf")), may_be_empty or plan.may_have_empty)
    return torch.bmm(weights.mT, plan.grid.fill(value)), log_mass


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """``[nodes, key parts, rows]``, of queries that all graphs share or of each graph's own."""
    if query.dim() == 3:
        return torch.einsum("nkd,krd->nkr", key, query)
    if is_padded(plan):
        return plan.grid.pick(torch.einsum("glkd,gkrd->glkr", plan.grid.fill(key), query))
    return torch.einsum("nkd,nkrd->nkr", key, query.index_select(0, plan.index))


def _shared_sums(query: Tensor, key: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """One matrix product scores all nodes against all rows, and padding is nothing but a bias."""
    grid = plan.grid
    keys = grid.fill(key.squeeze(1))
    values = keys if value is key else grid.fill(value.squeeze(1))
    logits = torch.addmm(grid.absent(key), keys.flatten(0, 1), query.squeeze(0).t())
    weights, log_mass = _shares(logits.view(grid.graphs, grid.length, logits.size(1)), may_be_empty=plan.may_have_empty)
    return torch.bmm(weights.mT, values), log_mass


def _shares(logits: Tensor, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """``[graphs, length, ...]`` -> the share of each place in its graph, and the log-mass of each graph.

    Of a graph without nodes a softmax would be NaN, and so would the gradient of a logsumexp.
    """
    if not may_be_empty:
        return logits.softmax(dim=1), logits.logsumexp(dim=1)
    # Of no rows there is no largest. A traced graph cannot ask whether it has rows, so it adds one.
    rows = logits.detach()
    if torch.compiler.is_compiling() or not logits.size(1):
        rows = torch.nn.functional.pad(rows, (0, 0) * (rows.dim() - 2) + (0, 1), value=float("-inf"))
    top = rows.amax(dim=1, keepdim=True)
    empty, top = top.isneginf(), nothing_as_zero(top)
    # Relative to the largest: the gradient of a logsumexp is exp(logit - log_mass), which is one for every node where a
    # weight is so large that the sum is rounded to it.
    logits = (logits - top).masked_fill(empty, 0.0)
    weights = logits.softmax(dim=1).masked_fill(empty, 0.0)
    log_mass = (logits.logsumexp(dim=1, keepdim=True) + top).masked_fill(empty, float("-inf"))
    return weights, log_mass.squeeze(1)


def _scattered_sums(scores: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Content and log-mass without the sizes of the graphs."""
    index, graphs = plan.index, plan.num_graphs
    lowest = scores.new_full((graphs, *scores.shape[1:]), float("-inf"))
    spread = index[:, None, None].expand_as(scores)
    top = nothing_as_zero(lowest.scatter_reduce(0, spread, scores.detach(), "amax"))
    weights = (scores - top.index_select(0, index)).exp()
    mass = torch.zeros_like(lowest).index_add(0, index, weights)
    outer = torch.einsum("npr,npw->nrpw", weights, value)
    total = outer.new_zeros((graphs, *outer.shape[1:])).index_add(0, index, outer)
    # where(...) inside and outside: the branch not taken would have a NaN gradient.
    empty = mass == 0
    mass = torch.where(empty, 1.0, mass)
    log_mass = torch.where(empty, float("-inf"), mass.log() + top)
    return total / mass.transpose(1, 2).unsqueeze(-1), log_mass.transpose(1, 2)


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """Context ``[nodes, heads, width]`` of query ``[nodes, heads, dim]``, key ``[graphs or 1, slots, heads, dim]`` and
    value ``[graphs, slots, heads, width]``; with ``sum_heads`` query and context have one head, which all share."""
    dtype = statistics_dtype(query.dtype)
    absent = None if where is None else ~where[:, None, None]
    queries, key, value = zeroed(query.to(dtype), absent), key.to(dtype), value.to(dtype)
    if is_padded(plan):
        grid = plan.grid
        own = key if key.size(0) == grid.graphs else key.expand(grid.graphs, -1, -1, -1)
        context = grid.pick(_mix(grid.fill(queries), own, value, sum_heads))
    else:
        # Keys that all graphs share too: a traced graph may not know how many there are, and then must not ask.
        own = key.expand(value.size(0), -1, -1, -1).index_select(0, plan.index)
        context = _mix(queries.unsqueeze(1), own, value.index_select(0, plan.index), sum_heads).squeeze(1)
    if residual:
        context = context + queries
    if absent is None:
        return context
    return torch.where(absent, query.to(dtype) if residual else 0.0, context)


def read_scored(scores: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """Context ``[nodes, width]``, heads summed, of scores ``[nodes, slots * heads]`` and value ``[graphs, slots, heads,
    width]``."""
    # Over the first axis: a CPU is slow at a softmax over few numbers side by side.
    by_slot = scores.t().contiguous().unflatten(0, (value.size(1), value.size(2)))
    weights, values = by_slot.softmax(dim=0).flatten(0, 1).t(), value.flatten(1, 2)
    if is_padded(plan):
        return plan.grid.pick(torch.bmm(plan.grid.fill(weights), values))
    return torch.bmm(weights.unsqueeze(1), values.index_select(0, plan.index)).squeeze(1)


def _mix(query: Tensor, key: Tensor, value: Tensor, sum_heads: bool) -> Tensor:
    """``[graphs, length, heads, dim]`` and the slots of each graph -> ``[graphs, length, heads, width]``.

    The softmax goes over neither the first nor the last axis, where a CPU is slow at it.
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
    """:func:`mooring.ops.film` as it is written down."""
    hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, node_weight, node_bias) + context)
    gamma, beta = torch.nn.functional.linear(hidden, film_weight, film_bias).tanh().chunk(2, dim=-1)
    return torch.addcmul(x, gamma, x, value=0.5) + beta


def is_padded(plan: Plan) -> bool:
    """Whether the sizes of the graphs may be read, and are even enough."""
    if plan.batch is None:
        return True
    if not plan.is_concrete:
        return False
    return plan.num_graphs * plan.largest <= PLACES_PER_NODE * plan.num_nodes


def is_small(plan: Plan) -> bool:
    """Return whether this back end is the fastest of those in PyTorch on a CPU: many small graphs of about one size."""
    if plan.batch is None or not 0 < plan.num_nodes <= SMALL_BATCH:
        return False
    return plan.num_graphs <= plan.num_nodes and plan.largest <= SMALL_GRAPH and is_padded(plan)


def left_out(log_weight: Tensor | None, where: Tensor | None) -> Tensor | None:
    """``[nodes, 1, 1]``, True for nodes that are left out: masked, or of weight zero everywhere."""
    absent = None if where is None else ~where[:, None, None]
    if log_weight is None:
        return absent
    gone = weightless(log_weight)[:, None, None]
    return gone if absent is None else absent | gone


def zeroed(tensor: Tensor, absent: Tensor | None) -> Tensor:
    """Zero at nodes that are left out: they may hold NaN, which times zero is NaN."""
    return tensor if absent is None else tensor.masked_fill(absent, 0.0)


def needs_pytorch(tensor: Tensor) -> bool:
    """Return whether PyTorch must see every step: the tensor has no data, or it is mapped or has a tangent."""
    if torch.compiler.is_compiling():
        return in_forward_mode()
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or torch._C._are_functorch_transforms_active():
        return True
    # is_grads_batched and vectorize=True map without torch.func.
    if torch._C._functorch.is_legacy_batchedtensor(tensor):
        return True
    return in_forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None


def must_trace(grads: Sequence[Tensor]) -> bool:
    """Return whether PyTorch must take a backward: it is differentiated again or mapped, or has a tangent."""
    return torch.is_grad_enabled() or any(needs_pytorch(grad) for grad in grads)


def gradients(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return the gradient of each input that requires one, by PyTorch's own calls, and None for the others.

    One input may depend on another: competition weighs nodes by their own keys, and a context was read by the nodes
    that it modulates. The function is of aliases, at which its gradients end.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        aliases = [None if one is None else one.view_as(one) for one in inputs]
        # A mass that depends on no score, as of a plain mean, is a constant.
        pairs = [(out, grad) for out, grad in zip(function(*aliases), grads, strict=True) if out.requires_grad]
    wanted = [one for one in aliases if one is not None and one.requires_grad]
    outputs, slopes = [out for out, _ in pairs], [grad.view_as(out) for out, grad in pairs]
    found = iter(torch.autograd.grad(outputs, wanted, slopes, create_graph=again, allow_unused=True))
    return [next(found) if one is not None and one.requires_grad else None for one in aliases]


def or_nothing(grad: Tensor | None, like: Tensor) -> Tensor:
    """Return an empty tensor in place of None: a registered op returns tensors only."""
    return like.new_empty(0) if grad is None else grad


def blank_gradients(inputs: Sequence[Tensor | None], needed: Sequence[bool], like: Tensor) -> list[Tensor]:
    """Return the gradients of a traced op, of which nothing but the shapes is known."""
    pairs = zip(inputs, needed, strict=True)
    return [or_nothing(None if one is None or not need else torch.empty_like(one), like) for one, need in pairs]


def only_needed(grads: Sequence[Tensor], needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Return None in place of the gradients that were not asked for."""
    return tuple(grad if need else None for grad, need in zip(grads, needed, strict=True))
