"""The native back end: sums over graphs, softmaxes over slots and Slot-FiLM in C++, if ``mooring-native`` is installed.

Scores of all nodes are one matrix product by PyTorch. They are saved for the backward, and for a read that shares them.
Double backward, ``vmap`` of a backward and its tangents are computed by :mod:`mooring.ops.plain`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain, tiles
from mooring.ops.plain import gradients, is_small, needs_plain_backward, only_needed
from mooring.ops.plan import Plan
from mooring.ops.state import full_precision, statistics_dtype

# For more bytes of scores, tiles are used, whose memory does not grow with the nodes.
MOST_SCORES = 256 << 20
# Up to this many bytes, modulations are saved for the backward; recomputing larger ones is faster than storing them.
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
    """Return whether the operators support the tensors: on a CPU, with statistics in float32."""
    return all(x.device.type == "cpu" and statistics_dtype(x.dtype) is torch.float32 for x in tensors)


def keeps_scores(num_nodes: int, rows: int) -> bool:
    """Return whether the scores fit into :data:`MOST_SCORES`."""
    return num_nodes * rows * 4 <= MOST_SCORES


def _supports(rows: int, nodes: Tensor, *others: Tensor) -> bool:
    return keeps_scores(nodes.size(0), rows) and suits((nodes, *others))


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Compute :func:`mooring.ops.plain.write`; heads with separate keys or values by another back end."""
    rows = query.size(-2)
    if key.size(1) != 1 or (value is not None and value.size(1) != 1) or not _supports(rows, key, query):
        return _fallback(plan).write(query, key, value, log_weight, where, plan)
    excluded = plain.excluded_nodes(log_weight, where)
    keys = plain.zero_rows(key.float(), excluded).squeeze(1)
    table = query.float().squeeze(-3)
    if value is None and log_weight is None and excluded is None and table.dim() == 2:
        plan, keys = _sort_by_graph(plan, keys)
        content, log_mass, _, _ = _SharedWrite.apply(keys, table, plan)
        return content.unsqueeze(2), log_mass.unsqueeze(2)
    values = keys if value is None else plain.zero_rows(value.float(), excluded).squeeze(1)
    scores = _scores(keys, table, plan)
    if log_weight is not None:
        scores = scores + log_weight.float().squeeze(1)
    if excluded is not None:
        scores = scores.masked_fill(excluded.squeeze(1), float("-inf"))
    content, log_mass = write_scored(scores, values, plan, may_be_empty=True)
    return content.unsqueeze(2), log_mass.unsqueeze(2)


def write_scored(scores: Tensor, value: Tensor, plan: Plan, *, may_be_empty: bool) -> tuple[Tensor, Tensor]:
    """Compute :func:`mooring.ops.plain.write_scored`."""
    plan, scores, value = _sort_by_graph(plan, scores, value.float())
    content, log_mass, _, _ = _Write.apply(scores, value, plan)
    return content, log_mass


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """Compute :func:`mooring.ops.plain.read`; heads that are not summed by another back end."""
    if not sum_heads or not _supports(key.size(1) * key.size(2), query, key, value):
        return _fallback(plan).read(query, key, value, where, plan, sum_heads, residual)
    excluded = None if where is None else ~where[:, None]
    queries = plain.zero_rows(query.float(), None if excluded is None else excluded[:, None])
    table = key.float().flatten(1, 2)
    shared = table.size(0) == 1
    scores = _SharedScores.apply(queries, table[0]) if shared else _scores(queries.squeeze(1), table, plan)
    context = read_scored(scores, value.float(), plan)
    if residual:
        context = context + queries.squeeze(1)
    if excluded is not None:
        context = torch.where(excluded, query.squeeze(1).float() if residual else 0.0, context)
    return context.unsqueeze(1)


def read_scored(scores: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """Compute :func:`mooring.ops.plain.read_scored`."""
    order = plan.order
    plan, scores = _sort_by_graph(plan, scores)
    context = _Read.apply(scores, value.flatten(1, 2), plan, value.size(2))
    return _restore_order(context, order)


def read_film(scores: Tensor, value: Tensor, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
    """Compute :func:`read_scored` fused with :func:`mooring.ops.film` of the nodes ``x``."""
    order = plan.order
    plan, scores, x = _sort_by_graph(plan, scores, x)
    return _restore_order(_ReadFilm.apply(plan, value.size(2), scores, value.flatten(1, 2), x, *weights), order)


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """Compute :func:`mooring.ops.plain.scores`."""
    return _fallback(plan).scores(query, key, plan)


def _fallback(plan: Plan) -> Any:
    """Return the back end for inputs that the operators do not support."""
    return plain if is_small(plan) else tiles


def _scores(nodes: Tensor, table: Tensor, plan: Plan) -> Tensor:
    """Return scores ``[nodes, rows]`` of a table ``[rows, dim]`` shared by all graphs, or ``[graphs, rows, dim]``."""
    if table.dim() == 2:
        return nodes @ table.t()
    order = plan.order
    plan, nodes = _sort_by_graph(plan, nodes)
    return _restore_order(_Product.apply(nodes, table, plan), order)


def _sort_by_graph(plan: Plan, *tensors: Tensor) -> tuple[Any, ...]:
    """Return the plan and the tensors with nodes sorted by graph."""
    if plan.order is None:
        return plan, *tensors
    order = plan.order
    return plan.by_graph, *(tensor.index_select(0, order) for tensor in tensors)


def _restore_order(rows: Tensor, order: Tensor | None) -> Tensor:
    """Undo :func:`_sort_by_graph` on the rows of a tensor."""
    return rows if order is None else torch.empty_like(rows).index_copy(0, order, rows)


def _ops() -> Any:
    return torch.ops.mooring_native


def _pytorch_gradients(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], grads: Sequence[Tensor]
) -> list[Any]:
    """Return the gradients by autograd through PyTorch operators, in full precision."""
    with full_precision(grads[0].device):
        return gradients(function, inputs, grads)


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
        if needs_plain_backward(grads[:2]):
            function = partial(plain.write_scored, plan=plan, may_be_empty=True)
            return *_pytorch_gradients(function, (scores, value), grads[:2]), None
        grad_content = grads[0].contiguous()
        offset = (grad_content * content).sum(dim=-1) - grads[1]
        input_grads = _ops().write_grad(grad_content, offset, scores, value, top, rest, plan.bounds, *needed)
        return *only_needed(input_grads, needed), None


class _SharedScores(torch.autograd.Function):
    """Scores ``[nodes, rows]`` of nodes ``[nodes, 1, dim]`` and a shared table ``[rows, dim]``.

    The gradient of the nodes is not a view, so autograd accumulates into it in place.
    """

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(nodes, table)
        return _plain_shared_scores(nodes, table)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        nodes, table = ctx.saved_tensors
        if needs_plain_backward(grads):
            return tuple(_pytorch_gradients(lambda n, t: (_plain_shared_scores(n, t),), (nodes, table), grads))
        grad_nodes, grad_table = None, None
        with full_precision(nodes.device):
            if ctx.needs_input_grad[0]:
                grad_nodes = nodes.new_empty(nodes.shape)
                torch.mm(grads[0], table, out=grad_nodes.squeeze(1))
            if ctx.needs_input_grad[1]:
                grad_table = grads[0].t() @ nodes.squeeze(1)
        return grad_nodes, grad_table


class _SharedWrite(torch.autograd.Function):
    """A write with shared queries whose values are its keys: both gradients of a node are summed in place."""

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
        if needs_plain_backward(grads[:2]):
            return *_pytorch_gradients(lambda n, t: _plain_shared_write(n, t, plan), (nodes, table), grads[:2]), None
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
        if needs_plain_backward(grads):
            input_grads = _pytorch_gradients(lambda s, v: (_plain_read(s, v, plan, heads),), (scores, value), grads)
            return *input_grads, None, None
        input_grads = _ops().read_grad(grads[0].contiguous(), scores, value, heads, plan.bounds, *needed)
        return *only_needed(input_grads, needed), None, None


class _ReadFilm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, heads: int, *inputs: Tensor) -> Tensor:
        scores, value, x, *weights = inputs = tuple(tensor.contiguous() for tensor in inputs)
        save = any(ctx.needs_input_grad) and 2 * x.numel() * x.element_size() <= KEPT_BOUNDS
        out, before, bounds = _ops().read_film(scores, value, heads, plan.bounds, x, *weights, save)
        ctx.plan, ctx.heads = plan, heads
        ctx.save_for_backward(*inputs, before, bounds)
        modulated: Tensor = out
        return modulated

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, before, bounds = ctx.saved_tensors
        plan, heads, needed = ctx.plan, ctx.heads, ctx.needs_input_grad[2:]
        if needs_plain_backward(grads):
            input_grads = _pytorch_gradients(lambda *inputs: (_plain_read_film(plan, heads, *inputs),), inputs, grads)
            return None, None, *input_grads
        scores, value, x, node_weight, _, film_weight, film_bias = inputs
        input_grads = _ops().read_film_grad(
            grads[0].contiguous(), before, bounds, scores, value, heads, plan.bounds, x, node_weight, film_weight,
            film_bias, *needed[:3],
        )  # fmt: skip
        return None, None, *only_needed(input_grads, needed)


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
        if needs_plain_backward(grads):
            return *_pytorch_gradients(lambda n, t: (_plain_product(n, t, plan),), (nodes, table), grads), None
        input_grads = _ops().product_grad(grads[0].contiguous(), nodes, table, plan.bounds, *needed)
        return *only_needed(input_grads, needed), None


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
