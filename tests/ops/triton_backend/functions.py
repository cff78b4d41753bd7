"""The launchers as differentiable functions, so that one comparison serves every back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mooring.ops import SlotState, reference
from mooring.ops.triton import sort_graphs
from support import Ragged

Kernels = Callable[..., Any]
# Empty graphs first, in the middle and last; graphs of one chunk, two and three.
MIXED = (0, 5, 40, 1, 0, 70, 17, 0)
FEW = (3, 0, 35)


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Kernels, place: tuple[Any, ...], *tensors: Tensor | None) -> Any:
        query, key, value, log_weight = tensors
        content, log_mass, *parts = call("write_forward", query, key, value, *place, log_weight)
        ctx.call, ctx.place = call, place
        ctx.save_for_backward(*tensors, content, *parts)
        return content, log_mass

    @staticmethod
    def backward(ctx: Any, grad_content: Tensor, grad_log_mass: Tensor) -> Any:
        query, key, value, log_weight, *state = ctx.saved_tensors
        incoming = (grad_content, grad_log_mass)
        grads = ctx.call("write_backward", *incoming, query, key, value, *ctx.place, log_weight, *state)
        return (None, None, *grads)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Kernels, place: tuple[Any, ...], options: dict[str, bool], *tensors: Tensor) -> Any:
        ctx.call, ctx.place, ctx.options = call, place, options
        ctx.save_for_backward(*tensors)
        return call("read_forward", *tensors, *place, **options)

    @staticmethod
    def backward(ctx: Any, grad_context: Tensor) -> Any:
        grads = ctx.call("read_backward", grad_context, *ctx.saved_tensors, *ctx.place, **ctx.options)
        return (None, None, None, *grads)


def places(batch: Ragged, where: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return ``ptr`` and ``order``; order is None for a sorted batch without excluded nodes."""
    index = batch.index() if where is None else torch.where(where, batch.index(), -1)
    ptr, order = sort_graphs(index, batch.num_graphs)
    return ptr, None if batch.ordered and where is None else order


def write(
    call: Kernels,
    batch: Ragged,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None = None,
    where: Tensor | None = None,
) -> SlotState:
    return SlotState(*_Write.apply(call, places(batch, where), query, key, value, log_weight))


def read(
    call: Kernels,
    batch: Ragged,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    where: Tensor | None = None,
    **options: bool,
) -> Tensor:
    return _Read.apply(call, places(batch, where), options, query, key, value)


def oracle_write(
    batch: Ragged, query: Tensor, key: Tensor, value: Tensor, log_weight: Tensor | None = None
) -> SlotState:
    """Compute the oracle; weights per slot and head are applied one slot and head at a time."""
    index, count = batch.index(), batch.num_graphs
    if log_weight is None or log_weight.dim() == 1:
        return reference.write(query, key, value, index, num_graphs=count, log_weight=log_weight)
    slots, heads = query.shape[:2]
    key, value = key.expand(-1, heads, -1), value.expand(-1, heads, -1)
    states = [
        reference.write(
            query[m : m + 1, h : h + 1], key[:, h : h + 1], value[:, h : h + 1], index,
            num_graphs=count, log_weight=log_weight[:, m, h],
        )
        for m in range(slots) for h in range(heads)
    ]  # fmt: skip
    content = torch.cat([state.content for state in states], dim=1).unflatten(1, (slots, heads)).squeeze(3)
    return SlotState(content, torch.cat([state.log_mass for state in states], dim=1).view(count, slots, heads))
