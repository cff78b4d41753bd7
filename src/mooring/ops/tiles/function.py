"""Differentiable tile functions: autograd functions for eager code, custom ops for tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.checks import NOT_CAPTURABLE
from mooring.ops.plain import blank_gradients, empty_if_none, gradients, needs_plain_backward, only_needed
from mooring.ops.plan import Plan
from mooring.ops.state import all_neginf, full_precision, statistics_dtype
from mooring.ops.tiles import read_tiles, write_tiles
from mooring.ops.tiles.layout import Layout


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Compute :func:`mooring.ops.plain.write`."""
    if torch.compiler.is_compiling():
        return write_op(query, key, value, log_weight, _ids(plan, where), plan.num_graphs)[:2]
    return _Write.apply(query, key, value, log_weight, plan, _active(log_weight, where))


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """Compute :func:`mooring.ops.plain.read`. Heads are separate parts, or groups of rows of one part."""
    groups = value.size(2) if sum_heads else 1
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    if sum_heads:
        key, value = (tensor.flatten(1, 2).unsqueeze(1) for tensor in (key, value))
    if torch.compiler.is_compiling():
        return read_op(query, key, value, _ids(plan, where), groups, residual)
    return _Read.apply(query, key, value, plan, where, groups, residual)


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor | None,
        log_weight: Tensor | None,
        plan: Plan,
        where: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        ctx.plan, ctx.layout = plan, Layout.of(plan, where)
        content, log_mass, tops, rests = write_tiles.forward(query, key, value, log_weight, ctx.layout, plan.num_graphs)
        ctx.save_for_backward(query, key, value, log_weight, where, content, tops, rests)
        return content, log_mass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, log_weight, where, content, tops, rests = ctx.saved_tensors
        inputs = (query, key, value, log_weight)
        input_grads: Sequence[Tensor | None]
        with full_precision(content.device):
            if needs_plain_backward(grads):
                input_grads = gradients(lambda q, k, v, w: plain.write(q, k, v, w, where, ctx.plan), inputs, grads)
            else:
                needed = ctx.needs_input_grad[:4]
                input_grads = write_tiles.backward(
                    grads[0], grads[1], *inputs, content, tops, rests, ctx.layout, needed
                )
        return (*input_grads, None, None)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: Plan,
        where: Tensor | None,
        groups: int,
        residual: bool,
    ) -> Tensor:
        ctx.plan, ctx.layout, ctx.groups, ctx.residual = plan, Layout.of(plan, where), groups, residual
        ctx.save_for_backward(query, key, value, where)
        return read_tiles.forward(query, key, value, ctx.layout, groups, residual)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, where = ctx.saved_tensors
        inputs, options = (query, key, value), (ctx.groups, ctx.residual)
        input_grads: Sequence[Tensor | None]
        with full_precision(query.device):
            if needs_plain_backward(grads):
                input_grads = gradients(
                    lambda q, k, v: (_plain_read(q, k, v, where, ctx.plan, *options),), inputs, grads
                )
            else:
                input_grads = read_tiles.backward(grads[0], *inputs, ctx.layout, *options, ctx.needs_input_grad[:3])
        return (*input_grads, None, None, None, None)


def _plain_read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, groups: int, residual: bool
) -> Tensor:
    if groups > 1:
        key, value = (tensor.unflatten(2, (groups, -1)).squeeze(1) for tensor in (key, value))
    sum_heads = groups > 1 or residual
    return plain.read(query, key.transpose(1, 2), value.transpose(1, 2), where, plan, sum_heads, residual)


def _active(log_weight: Tensor | None, where: Tensor | None) -> Tensor | None:
    """Return the mask of active nodes; None if all are. Nodes of weight zero are never read: they may contain NaN."""
    if log_weight is None:
        return where
    weightless = all_neginf(log_weight)
    if not bool(weightless.any()):
        return where
    return ~weightless if where is None else where & ~weightless


def _ids(plan: Plan, where: Tensor | None) -> Tensor | None:
    """Return the graph ids for a custom op, -1 for nodes masked by ``where``."""
    if where is None:
        return plan.batch
    return where.long() - 1 if plan.batch is None else torch.where(where, plan.batch, -1)


def _layout(num_nodes: int, num_graphs: int, ids: Tensor | None, log_weight: Tensor | None, like: Tensor) -> Layout:
    """Return the layout for a custom op, from its graph ids (-1: masked) and log weights."""
    if ids is None:
        return Layout.of(Plan(num_nodes, num_graphs, None, None, like.device), _active(log_weight, None))
    where = None if bool((ids >= 0).all()) else ids >= 0
    batch = None if num_graphs == 1 else ids
    return Layout.of(Plan(num_nodes, num_graphs, batch, None, like.device), _active(log_weight, where))


@torch.library.custom_op("mooring::write", mutates_args=(), tags=NOT_CAPTURABLE)
def write_op(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, ids: Tensor | None, num_graphs: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    layout = _layout(key.size(0), num_graphs, ids, log_weight, key)
    return write_tiles.forward(query, key, value, log_weight, layout, num_graphs)


@write_op.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, ids: Tensor | None, num_graphs: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = statistics_dtype(key.dtype)
    parts, rows, width = write_tiles.content_axes(query, key, value)
    shape = (num_graphs, rows, parts)
    masses = [key.new_empty(shape, dtype=dtype) for _ in range(3)]
    return key.new_empty((*shape, width), dtype=dtype), masses[0], masses[1], masses[2]


@torch.library.custom_op("mooring::write_backward", mutates_args=(), tags=NOT_CAPTURABLE)
def write_backward_op(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None,
    ids: Tensor | None,
    content: Tensor,
    tops: Tensor,
    rests: Tensor,
    needed: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    layout = _layout(key.size(0), content.size(0), ids, log_weight, key)
    grads = write_tiles.backward(
        grad_content, grad_log_mass, query, key, value, log_weight, content, tops, rests, layout, needed
    )
    grad_query, grad_key, grad_value, grad_log_weight = (empty_if_none(grad, key) for grad in grads)
    return grad_query, grad_key, grad_value, grad_log_weight


@write_backward_op.register_fake
def _(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None,
    ids: Tensor | None,
    content: Tensor,
    tops: Tensor,
    rests: Tensor,
    needed: Sequence[bool],
) -> list[Tensor]:
    return blank_gradients((query, key, value, log_weight), needed, key)


@torch.library.custom_op("mooring::read", mutates_args=(), tags=NOT_CAPTURABLE)
def read_op(query: Tensor, key: Tensor, value: Tensor, ids: Tensor | None, groups: int, residual: bool) -> Tensor:
    return read_tiles.forward(query, key, value, _layout(len(query), len(value), ids, None, query), groups, residual)


@read_op.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, ids: Tensor | None, groups: int, residual: bool) -> Tensor:
    return query.new_empty(query.size(0), query.size(1), value.size(-1), dtype=statistics_dtype(query.dtype))


@torch.library.custom_op("mooring::read_backward", mutates_args=(), tags=NOT_CAPTURABLE)
def read_backward_op(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ids: Tensor | None,
    groups: int,
    residual: bool,
    needed: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    layout = _layout(len(query), len(value), ids, None, query)
    grads = read_tiles.backward(grad_context, query, key, value, layout, groups, residual, needed)
    grad_query, grad_key, grad_value = (empty_if_none(grad, key) for grad in grads)
    return grad_query, grad_key, grad_value


@read_backward_op.register_fake
def _(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ids: Tensor | None,
    groups: int,
    residual: bool,
    needed: Sequence[bool],
) -> list[Tensor]:
    return blank_gradients((query, key, value), needed, key)


def _save_write(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    content, _, tops, rests = output
    ctx.save_for_backward(*inputs[:5], content, tops, rests)


def _write_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    needed = list(ctx.needs_input_grad[:4])
    with full_precision(saved[1].device):
        input_grads = write_backward_op(*grads[:2], *saved, needed)
    return *only_needed(input_grads, needed), None, None


def _save_read(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.groups, ctx.residual = inputs
    ctx.save_for_backward(*tensors)


def _read_gradients(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:
    needed = list(ctx.needs_input_grad[:3])
    with full_precision(grad_context.device):
        input_grads = read_backward_op(grad_context, *ctx.saved_tensors, ctx.groups, ctx.residual, needed)
    return *only_needed(input_grads, needed), None, None, None


write_op.register_autograd(_write_gradients, setup_context=_save_write)
read_op.register_autograd(_read_gradients, setup_context=_save_read)
