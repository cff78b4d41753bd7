"""The launchers as custom ops for tracing, with fake kernels and gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mooring.ops.plain import empty_if_none, only_needed
from mooring.ops.state import full_precision
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward


@torch.library.custom_op("mooring::triton_write", mutates_args=())
def write_op(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, ptr: Tensor, order: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return write_forward(query, key, value, ptr, order, log_weight)


@write_op.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, ptr: Tensor, order: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = (ptr.size(0) - 1, query.size(0), query.size(1))
    width = (key if value is None else value).size(-1)
    log_mass, top, rest = (key.new_empty(shape, dtype=torch.float32) for _ in range(3))
    return key.new_empty((*shape, width), dtype=torch.float32), log_mass, top, rest


@torch.library.custom_op("mooring::triton_write_backward", mutates_args=())
def write_backward_op(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None,
    ptr: Tensor,
    order: Tensor | None,
    content: Tensor,
    top: Tensor,
    rest: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grads = write_backward(grad_content, grad_log_mass, query, key, value, ptr, order, log_weight, content, top, rest)
    return grads[0], grads[1], empty_if_none(grads[2], key), empty_if_none(grads[3], key)


@write_backward_op.register_fake
def _(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _like(query), _like(key), empty_if_none(_like(value), key), empty_if_none(_like(log_weight), key)


@torch.library.custom_op("mooring::triton_read", mutates_args=())
def read_op(
    query: Tensor, key: Tensor, value: Tensor, ptr: Tensor, order: Tensor | None, sum_heads: bool, residual: bool
) -> Tensor:
    return read_forward(query, key, value, ptr, order, sum_heads=sum_heads, residual=residual)


@read_op.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, ptr: Tensor, order: Tensor | None, sum_heads: bool, residual: bool
) -> Tensor:
    heads = 1 if sum_heads else value.size(2)
    return query.new_empty(query.size(0), heads, value.size(-1), dtype=torch.float32)


@torch.library.custom_op("mooring::triton_read_backward", mutates_args=())
def read_backward_op(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ptr: Tensor,
    order: Tensor | None,
    sum_heads: bool,
    residual: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return read_backward(grad_context, query, key, value, ptr, order, sum_heads=sum_heads, residual=residual)


@read_backward_op.register_fake
def _(grad_context: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _like(query), _like(key), _like(value)


def _like(tensor: Tensor | None) -> Any:
    return None if tensor is None else torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _save_write(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    content, _, top, rest = output
    ctx.mark_non_differentiable(top, rest)
    ctx.save_for_backward(*inputs, content, top, rest)


def _write_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    with full_precision(grads[0].device):
        input_grads = write_backward_op(*grads[:2], *ctx.saved_tensors)
    return *only_needed(input_grads, ctx.needs_input_grad[:4]), None, None


def _save_read(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.sum_heads, ctx.residual = inputs
    ctx.save_for_backward(*tensors)


def _read_gradients(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:
    with full_precision(grad_context.device):
        input_grads = read_backward_op(grad_context, *ctx.saved_tensors, ctx.sum_heads, ctx.residual)
    return *only_needed(input_grads, ctx.needs_input_grad[:3]), None, None, None, None


write_op.register_autograd(_write_gradients, setup_context=_save_write)
read_op.register_autograd(_read_gradients, setup_context=_save_read)
