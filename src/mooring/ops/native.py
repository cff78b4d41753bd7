"""The native back end: sums over graphs, softmaxes over slots and Slot-FiLM in C++, if ``mooring-native`` is installed.

Scores of all nodes are one matrix product by PyTorch; they are kept for the backward, and for a read that shares them.
A second derivative, a batched backward and the tangent of a backward are taken through :mod:`mooring.ops.plain`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain, tiles
from mooring.ops.plain import gradients, is_small, must_trace
from mooring.ops.plan import Plan
from mooring.ops.state import full_precision, statistics_dtype

# Beyond as many bytes of scores tiles are used, whose memory does not grow with the nodes.
MOST_SCORES = 256 << 20
# As many bytes of modulations are kept for the backward; writing more to new memory takes longer than computing them.
KEPT_BOUNDS = 8 << 20


def can_be_loaded() -> bool:
    """Load the operators; return False after a warning if that fails."""
    try:
        importlib.import_module("mooring_native")
    except (ImportError, OSError) as error:
        warnings.warn(
            f"mooring-native is installed but cannot be loaded, so mooring is slower than it could be: {error} "
            "Build it again for the PyTorch that is installed: pip install --no-build-isolation ./native.",
            stacklevel=2,
        )
        return False
    return True


def suits(tensors: Sequence[Tensor]) -> bool:
    """Return whether the operators take tensors: their statistics are in single precision, on a CPU."""
    return all(one.device.type == "cpu" and statistics_dtype(one.dtype) is torch.float32 for one in tensors)


def keeps_scores(num_nodes: int, rows: int) -> bool:
    """Return whether as many scores are kept."""
    return num_nodes * rows * 4 <= MOST_SCORES


def _takes(rows: int, nodes: Tensor, *others: Tensor) -> bool:
    return keeps_scores(nodes.size(0), rows) and suits((nodes, *others))


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """As :func:`mooring.ops.plain.write`; heads with values of their own are computed by another back end."""
    rows = query.size(-2)
    if key.size(1) != 1 or (value is not None and value.size(1) != 1) or not _takes(rows, key, query):
        return _other(plan).write(query, key, value, log_weight, where, plan)
    absent = plain.left_out(log_weight, where)
    keys = plain.zeroed(key.float(), absent).squeeze(1)
    table = query.float().squeeze(-3)
    if value is None and log_weight is None and absent is None and table.dim() == 2:
        plan, keys = _by_graph(plan, keys)
        content, log_mass, _, _ = _SharedWrite.apply(keys, table, plan)
        return content.unsqueeze(2), log_mass.unsqueeze(2)
    values = keys if value is None else plain.zeroed(value.float(), absent).squeeze(1)
    scores = _scores(keys, table, plan)
    if log_weight is not None:
        scores = scores + log_weight.float().squeeze(1)
    if absent is not None:
        scores = scores.masked_fill(absent.squeeze(1), float("-inf"))
    content, log_mass = write_scored(scores, values, plan, may_be_empty=True)
    return content.unsqueeze(2), log_mass.unsqueeze(2)


def write_scored(scores: Tensor, value: Tensor, plan: Plan, *, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """As :func:`mooring.ops.plain.write_scored`."""
    plan, scores, value = _by_graph(plan, scores, value.float())
    content, log_mass, _, _ = _Write.apply(scores, value, plan)
    return content, log_mass


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """As :func:`mooring.ops.plain.read`; heads with contexts of their own are computed by another back end."""
    if not sum_heads or not _takes(key.size(1) * key.size(2), query, key, value):
        return _other(plan).read(query, key, value, where, plan, sum_heads, residual)
    absent = None if where is None else ~where[:, None]
    queries = plain.zeroed(query.float(), None if absent is None else absent[:, None])
    table = key.float().flatten(1, 2)
    shared = table.size(0) == 1
    scores = _SharedScores.apply(queries, table[0]) if shared else _scores(queries.squeeze(1), table, plan)
    context = read_scored(scores, value.float(), plan)
    if residual:
        context = context + queries.squeeze(1)
    if absent is not None:
        context = torch.where(absent, query.squeeze(1).float() if residual else 0.0, context)
    return context.unsqueeze(1)


def read_scored(scores: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """As :func:`mooring.ops.plain.read_scored`."""
    order = plan.order
    plan, scores = _by_graph(plan, scores)
    context = _Read.apply(scores, value.flatten(1, 2), plan, value.size(2))
    return _as_given(context, order)


def read_film(scores: Tensor, value: Tensor, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
    """Compute :func:`read_scored` and bring the context into the nodes by Slot-FiLM, see :func:`mooring.ops.film`."""
    order = plan.order
    plan, scores, x = _by_graph(plan, scores, x)
    return _as_given(_ReadFilm.apply(plan, value.size(2), scores, value.flatten(1, 2), x, *weights), order)


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """As :func:`mooring.ops.plain.scores`."""
    return _other(plan).scores(query, key, plan)


def _other(plan: Plan) -> Any:
    """The back end for what is not computed here."""
    return plain if is_small(plan) else tiles


def _scores(nodes: Tensor, table: Tensor, plan: Plan) -> Tensor:
    """``[nodes, rows]``, of a table ``[rows, dim]`` that all graphs share or ``[graphs, rows, dim]``."""
    if table.dim() == 2:
        return nodes @ table.t()
    order = plan.order
    plan, nodes = _by_graph(plan, nodes)
    return _as_given(_Product.apply(nodes, table, plan), order)


def _by_graph(plan: Plan, *tensors: Tensor) -> tuple[Any, ...]:
    """The plan and the rows of tensors with nodes sorted by graph."""
    if plan.order is None:
        return plan, *tensors
    order = plan.order
    return plan.by_graph, *(tensor.index_select(0, order) for tensor in tensors)


def _as_given(rows: Tensor, order: Tensor | None) -> Tensor:
    """Rows of nodes sorted by graph, as the nodes were given."""
    return rows if order is None else torch.empty_like(rows).index_copy(0, order, rows)


def _ops() -> Any:
    return torch.ops.mooring_native


def _traced(function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], grads: Sequence[Tensor]) -> list[Any]:
    """The gradients by PyTorch's own calls."""
    with full_precision(grads[0].device):
        return gradients(function, inputs, grads)


def _wanted(grads: Sequence[Tensor], needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    return tuple(grad if need else None for grad, need in zip(grads, needed, strict=True))


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        scores, value = scores.contiguous(), value.contiguous()
        content, top, rest = _ops().write(scores, value, plan.bounds)
        ctx.plan = plan
        ctx.save_for_backward(scores, value, content, top, rest)
        ctx.mark_non_differentiable(top, rest)
        return content, top + rest, top, rest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, value, content, top, rest = ctx.saved_tensors
        plan, needed = ctx.plan, ctx.needs_input_grad[:2]
        if must_trace(grads[:2]):
            again = _traced(lambda s, v: plain.write_scored(s, v, plan, may_be_empty=True), (scores, value), grads[:2])
            return *again, None
        grad_content = grads[0].contiguous()
        offset = (grad_content * content).sum(dim=-1) - grads[1]
        found = _ops().write_grad(grad_content, offset, scores, value, top, rest, plan.bounds, *needed)
        return *_wanted(found, needed), None


class _SharedScores(torch.autograd.Function):
    """Scores ``[nodes, rows]`` of ``[nodes, 1, dim]`` by a table ``[rows, dim]``.

    The gradient of the nodes is not a view, so PyTorch adds the next one to it in place.
    """

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(nodes, table)
        return _plain_shared_scores(nodes, table)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        nodes, table = ctx.saved_tensors
        if must_trace(grads):
            return tuple(_traced(lambda n, t: (_plain_shared_scores(n, t),), (nodes, table), grads))
        grad_nodes, grad_table = None, None
        with full_precision(nodes.device):
            if ctx.needs_input_grad[0]:
                grad_nodes = nodes.new_empty(nodes.shape)
                torch.mm(grads[0], table, out=grad_nodes.squeeze(1))
            if ctx.needs_input_grad[1]:
                grad_table = grads[0].t() @ nodes.squeeze(1)
        return grad_nodes, grad_table


class _SharedWrite(torch.autograd.Function):
    """A write whose values are its keys, by queries that all graphs share: their gradients are added in place."""

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, table: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        nodes = nodes.contiguous()
        scores = nodes @ table.t()
        content, top, rest = _ops().write(scores, nodes, plan.bounds)
        ctx.plan = plan
        ctx.save_for_backward(nodes, table, scores, content, top, rest)
        ctx.mark_non_differentiable(top, rest)
        return content, top + rest, top, rest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        nodes, table, scores, content, top, rest = ctx.saved_tensors
        plan, needed = ctx.plan, ctx.needs_input_grad[:2]
        if must_trace(grads[:2]):
            return *_traced(lambda n, t: _plain_shared_write(n, t, plan), (nodes, table), grads[:2]), None
        grad_content = grads[0].contiguous()
        offset = (grad_content * content).sum(dim=-1) - grads[1]
        grad_scores, grad_nodes = _ops().write_grad(
            grad_content, offset, scores, nodes, top, rest, plan.bounds, True, needed[0]
        )
        with full_precision(nodes.device):
            grad_table = grad_scores.t() @ nodes if needed[1] else None
            return grad_nodes.addmm_(grad_scores, table) if needed[0] else None, grad_table, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, plan: Plan, heads: int) -> Tensor:
        scores, value = scores.contiguous(), value.contiguous()
        ctx.plan, ctx.heads = plan, heads
        ctx.save_for_backward(scores, value)
        out: Tensor = _ops().read(scores, value, heads, plan.bounds)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, value = ctx.saved_tensors
        plan, heads, needed = ctx.plan, ctx.heads, ctx.needs_input_grad[:2]
        if must_trace(grads):
            again = _traced(lambda s, v: (_plain_read(s, v, plan, heads),), (scores, value), grads)
            return *again, None, None
        found = _ops().read_grad(grads[0].contiguous(), scores, value, heads, plan.bounds, *needed)
        return *_wanted(found, needed), None, None


class _ReadFilm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, heads: int, *inputs: Tensor) -> Tensor:
        scores, value, x, *weights = inputs = tuple(one.contiguous() for one in inputs)
        keep = any(ctx.needs_input_grad) and 2 * x.numel() * x.element_size() <= KEPT_BOUNDS
        out, before, bounds = _ops().read_film(scores, value, heads, plan.bounds, x, *weights, keep)
        ctx.plan, ctx.heads = plan, heads
        ctx.save_for_backward(*inputs, before, bounds)
        modulated: Tensor = out
        return modulated

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, before, bounds = ctx.saved_tensors
        plan, heads, needed = ctx.plan, ctx.heads, ctx.needs_input_grad[2:]
        if must_trace(grads):
            return None, None, *_traced(lambda *own: (_plain_read_film(plan, heads, *own),), inputs, grads)
        scores, value, x, node_weight, _, film_weight, film_bias = inputs
        found = _ops().read_film_grad(
            grads[0].contiguous(), before, bounds, scores, value, heads, plan.bounds, x, node_weight, film_weight,
            film_bias, *needed[:3],
        )  # fmt: skip
        return None, None, *_wanted(found, needed)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, nodes: Tensor, table: Tensor, plan: Plan) -> Tensor:
        nodes, table = nodes.contiguous(), table.contiguous()
        ctx.plan = plan
        ctx.save_for_backward(nodes, table)
        out: Tensor = _ops().product(nodes, table, plan.bounds)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        nodes, table = ctx.saved_tensors
        plan, needed = ctx.plan, ctx.needs_input_grad[:2]
        if must_trace(grads):
            again = _traced(lambda n, t: (_plain_product(n, t, plan),), (nodes, table), grads)
            return *again, None
        found = _ops().product_grad(grads[0].contiguous(), nodes, table, plan.bounds, *needed)
        return *_wanted(found, needed), None


def _plain_shared_scores(nodes: Tensor, table: Tensor) -> Tensor:
    return nodes.squeeze(1) @ table.t()


def _plain_shared_write(nodes: Tensor, table: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    return plain.write_scored(nodes @ table.t(), nodes, plan, may_be_empty=True)


def _plain_read(scores: Tensor, value: Tensor, plan: Plan, heads: int) -> Tensor:
    return plain.read_scored(scores, value.unflatten(1, (-1, heads)), plan)


def _plain_read_film(plan: Plan, heads: int, scores: Tensor, value: Tensor, x: Tensor, *weights: Tensor) -> Tensor:
    return plain.film(x, _plain_read(scores, value, plan, heads), *weights)


def _plain_product(nodes: Tensor, table: Tensor, plan: Plan) -> Tensor:
    return plain.scores(table.unsqueeze(1), nodes.unsqueeze(1), plan).squeeze(1)
