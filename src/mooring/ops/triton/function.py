"""The kernels as a back end: differentiable functions with a custom backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.plain import gradients, needs_plain_backward
from mooring.ops.plan import Plan
from mooring.ops.triton.launch import sort_graphs
from mooring.ops.triton.operators import read_op, write_op
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward


def write(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Compute :func:`mooring.ops.plain.write`; queries with a graphs axis are left to plain."""
    if query.dim() == 4:
        return plain.write(query, key, value, log_weight, where, plan)
    parts = (key if value is None else value).size(1)
    # reshape(parts, -1, dim) fails for keys of width zero, which modules that pool uniformly have.
    rows = query.size(0) * query.size(1) // parts
    slots = query.reshape(parts, rows, query.size(-1)).transpose(0, 1)
    if log_weight is not None:
        heads_last = log_weight.transpose(1, 2)
        per_node = heads_last.shape[1:] == (1, 1)
        log_weight = heads_last.flatten() if per_node else heads_last.expand(-1, slots.size(0), parts)
    if torch.compiler.is_compiling():
        return write_op(slots, key, value, log_weight, *_places(plan, where))[:2]
    return _Write.apply(slots, key, value, log_weight, where, plan)


def read(
    query: Tensor, key: Tensor, value: Tensor, where: Tensor | None, plan: Plan, sum_heads: bool, residual: bool
) -> Tensor:
    """Compute :func:`mooring.ops.plain.read`."""
    if torch.compiler.is_compiling():
        return read_op(query, key, value, *_places(plan, where), sum_heads, residual)
    return _Read.apply(query, key, value, where, plan, sum_heads, residual)


def _places(plan: Plan, where: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return ``ptr`` and ``order``, see :mod:`mooring.ops.triton`; nodes masked by ``where`` are last."""
    if where is not None:
        return sort_graphs(torch.where(where, plan.index, -1), plan.num_graphs)
    if torch.compiler.is_compiling() and plan.batch is not None and plan.ptr is None:
        # Under tracing it cannot be read whether the batch is sorted.
        return plan.get_or_make("places", lambda plan: sort_graphs(plan.index, plan.num_graphs))
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
        input_grads: Sequence[Tensor | None]
        if needs_plain_backward(grads):
            input_grads = gradients(lambda q, k, v, w: _plain_write(q, k, v, w, where, ctx.plan), inputs, grads)
        else:
            ptr, order = ctx.places
            input_grads = write_backward(grads[0], grads[1], query, key, value, ptr, order, log_weight, *state)
        return (*input_grads, None, None)


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
        input_grads: Sequence[Tensor | None]
        if needs_plain_backward(grads):
            input_grads = gradients(
                lambda q, k, v: (plain.read(q, k, v, where, ctx.plan, **ctx.options),), inputs, grads
            )
        else:
            input_grads = read_backward(grads[0], *inputs, *ctx.places, **ctx.options)
        return (*input_grads, None, None, None, None)
