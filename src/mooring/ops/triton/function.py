"""The kernels behind the interface that every back end has, with gradients of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.plain import gradients, must_trace
from mooring.ops.plan import Plan
from mooring.ops.triton.launch import sort_graphs
from mooring.ops.triton.operators import read_op, write_op
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """As :func:`mooring.ops.plain.write`, which also takes the queries that differ from graph to graph."""
    if query.dim() == 4:
        return plain.write(query, key, value, log_weight, where, plan)
    parts = (key if value is None else value).size(1)
    # Counted, not left to reshape: keys of width zero, of modules that pool alike, leave it nothing to divide.
    rows = query.size(0) * query.size(1) // parts
    slots = query.reshape(parts, rows, query.size(-1)).transpose(0, 1)
    if log_weight is not None:
        heads_last = log_weight.transpose(1, 2)
        alone = heads_last.shape[1:] == (1, 1)
        log_weight = heads_last.flatten() if alone else heads_last.expand(-1, slots.size(0), parts)
    if torch.compiler.is_compiling():
        return write_op(slots, key, value, log_weight, *_places(plan, where))[:2]
    return _Write.apply(slots, key, value, log_weight, where, plan)


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """As :func:`mooring.ops.plain.read`."""
    if torch.compiler.is_compiling():
        return read_op(query, key, value, *_places(plan, where), sum_heads, residual)
    return _Read.apply(query, key, value, where, plan, sum_heads, residual)


def _places(plan: Plan, where: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Where graphs begin, and the node in each place; nodes that do not take part come last."""
    if where is not None:
        return sort_graphs(torch.where(where, plan.index, -1), plan.num_graphs)
    if torch.compiler.is_compiling() and plan.batch is not None and plan.ptr is None:
        # A traced graph cannot ask whether the batch is sorted.
        return plan.keep("places", lambda plan: sort_graphs(plan.index, plan.num_graphs))
    return plan.offsets, plan.order


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor | None,
        log_weight: Tensor | None,
        where: Tensor | None,
        plan: Plan,
    ) -> tuple[Tensor, Tensor]:
        ctx.plan, ctx.places = plan, _places(plan, where)
        ptr, order = ctx.places
        content, log_mass, *parts = write_forward(query, key, value, ptr, order, log_weight)
        ctx.save_for_backward(query, key, value, log_weight, where, content, *parts)
        return content, log_mass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, log_weight, where, *state = ctx.saved_tensors
        inputs = (query, key, value, log_weight)
        found: Sequence[Tensor | None]
        if must_trace(grads):
            found = gradients(lambda q, k, v, w: _plain_write(q, k, v, w, where, ctx.plan), inputs, grads)
        else:
            ptr, order = ctx.places
            found = write_backward(grads[0], grads[1], query, key, value, ptr, order, log_weight, *state)
        return (*found, None, None)


def _plain_write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    folded = query.transpose(0, 1)
    if key.size(1) == 1 != folded.size(0):
        folded = folded.flatten(0, 1).unsqueeze(0)
    if log_weight is not None:
        log_weight = log_weight[:, None, None] if log_weight.dim() == 1 else log_weight.transpose(1, 2)
    return plain.write(folded, key, value, log_weight, where, plan)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        where: Tensor | None,
        plan: Plan,
        sum_heads: bool,
        residual: bool,
    ) -> Tensor:
        ctx.plan, ctx.places = plan, _places(plan, where)
        ctx.options = {"sum_heads": sum_heads, "residual": residual}
        ctx.save_for_backward(query, key, value, where)
        return read_forward(query, key, value, *ctx.places, **ctx.options)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, where = ctx.saved_tensors
        inputs = (query, key, value)
        found: Sequence[Tensor | None]
        if must_trace(grads):
            found = gradients(lambda q, k, v: (plain.read(q, k, v, where, ctx.plan, **ctx.options),), inputs, grads)
        else:
            found = read_backward(grads[0], *inputs, *ctx.places, **ctx.options)
        return (*found, None, None, None, None)
