"""Per-head operations: a linear map, and a softmax over slots along the axis that is fast on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mooring.ops.checks import check_flag
from mooring.ops.plain import (
    blank_gradients,
    empty_if_none,
    gradients,
    needs_plain_backward,
    needs_pytorch,
    only_needed,
)
from mooring.ops.state import full_precision, in_forward_mode

# PyTorch's softmax is not vectorised over a last axis shorter than a vector register. Over 8 slots it was 7 times
# slower than along another axis, over 16 slots twice as fast.
VECTOR = 16


def map_heads(
    x: Float[Tensor, "*rows heads dim"], weight: Float[Tensor, "heads _ _"], *, transposed: bool = False
) -> Float[Tensor, "*rows heads out"]:
    r"""Multiply each head by its own matrix, :math:`y_{gmh} = W_h x_{gmh}`.

    Used for projections that are folded into the slots. One matrix product per head, without a copy of the heads. A
    custom op for ``torch.compile``, which cannot lower a batched product with a symbolic number of graphs. The weight
    is ``[heads, out, dim]``, or ``[heads, dim, out]`` if ``transposed``.

    >>> map_heads(torch.ones(1, 2, 3, 4), torch.ones(3, 5, 4))[0, 0, 0].tolist()
    [4.0, 4.0, 4.0, 4.0, 4.0]
    """
    if type(transposed) is not bool:
        transposed = check_flag("map_heads", "transposed", transposed)
    weight = weight.to(x.dtype)
    with full_precision(x.device):
        # The custom op has no jvp.
        if torch.compiler.is_compiling() and not torch.compiler.is_exporting() and not in_forward_mode():
            return map_heads_op(x, weight.mT if transposed else weight)
        if torch.compiler.is_compiling() or x.device.type != "cpu" or needs_pytorch(x) or needs_pytorch(weight):
            return _map_plainly(x, weight.mT if transposed else weight)
        mapped: Tensor = _MapHeads.apply(x, weight.mT if transposed else weight)
        return mapped


def _map_plainly(x: Tensor, weight: Tensor) -> Tensor:
    """Compute the map by one batched product over heads."""
    rows = x if x.dim() == 3 else x.flatten(0, -3)
    mapped = torch.bmm(rows.transpose(0, 1), weight.mT).transpose(0, 1)
    return mapped if x.dim() == 3 else mapped.unflatten(0, x.shape[:-2])


class _MapHeads(torch.autograd.Function):
    """The map as one product per head on strided views, without a copy of all heads, forward or backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _forward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        with full_precision(grads[0].device):
            if needs_plain_backward(grads):
                return tuple(gradients(lambda *inputs: (_map_plainly(*inputs),), (x, weight), grads))
            return _products(grads[0], x, weight, ctx.needs_input_grad)


def _flatten_rows(x: Tensor) -> Tensor:
    """Flatten ``[..., heads, dim]`` to ``[rows, heads, dim]``."""
    return x.contiguous().flatten(0, -3)


def _forward(x: Tensor, weight: Tensor) -> Tensor:
    rows = _flatten_rows(x)
    out = x.new_empty(rows.size(0), weight.size(0), weight.size(1))
    for head in range(weight.size(0)):
        torch.mm(rows[:, head], weight[head].t(), out=out[:, head])
    return out.view(*x.shape[:-1], weight.size(1))


def _products(grad: Tensor, x: Tensor, weight: Tensor, needed: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:
    rows, grads = _flatten_rows(x), _flatten_rows(grad)
    grad_x = torch.empty_like(rows) if needed[0] else None
    grad_weight = torch.empty_like(weight) if needed[1] else None
    for head in range(weight.size(0)):
        if grad_x is not None:
            torch.mm(grads[:, head], weight[head], out=grad_x[:, head])
        if grad_weight is not None:
            torch.mm(grads[:, head].t(), rows[:, head], out=grad_weight[head])
    return None if grad_x is None else grad_x.view(x.shape), grad_weight


@torch.library.custom_op("mooring::map_heads", mutates_args=())
def map_heads_op(x: Tensor, weight: Tensor) -> Tensor:
    return _forward(x, weight)


@map_heads_op.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.size(1))


@torch.library.custom_op("mooring::map_heads_backward", mutates_args=())
def map_heads_backward_op(grad: Tensor, x: Tensor, weight: Tensor, needed: Sequence[bool]) -> tuple[Tensor, Tensor]:
    grad_x, grad_weight = _products(grad, x, weight, needed)
    return empty_if_none(grad_x, x), empty_if_none(grad_weight, x)


@map_heads_backward_op.register_fake
def _(grad: Tensor, x: Tensor, weight: Tensor, needed: Sequence[bool]) -> list[Tensor]:
    return blank_gradients((x.contiguous(), weight), needed, x)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    needed = list(ctx.needs_input_grad[:2])
    with full_precision(grad.device):
        grads = map_heads_backward_op(grad, *ctx.saved_tensors, needed)
    return only_needed(grads, needed)


map_heads_op.register_autograd(_backward, setup_context=_setup)


def softmax_over_slots(scores: Tensor, groups: int) -> Tensor:
    """Apply a softmax within each group of the last axis of ``[..., nodes, groups * slots]``."""
    slots = scores.size(-1) // groups
    grouped = scores.unflatten(-1, (groups, slots))
    if slots >= VECTOR:
        return grouped.softmax(dim=-1).flatten(-2)
    return _undo_nodes_last(_nodes_last(grouped).softmax(dim=-2)).flatten(-2)


def softmax_over_slots_backward(grad: Tensor, weights: Tensor, groups: int) -> Tensor:
    """Return the gradients of the scores from the gradients of the weights and the weights."""
    slots = weights.size(-1) // groups
    grouped, weights = grad.unflatten(-1, (groups, slots)), weights.unflatten(-1, (groups, slots))
    if slots >= VECTOR:
        return torch._softmax_backward_data(grouped, weights, -1, weights.dtype).flatten(-2)
    grad_scores = torch._softmax_backward_data(_nodes_last(grouped), _nodes_last(weights), -2, weights.dtype)
    return _undo_nodes_last(grad_scores).flatten(-2)


def _nodes_last(grouped: Tensor) -> Tensor:
    """Permute ``[..., nodes, groups, slots]`` to a contiguous ``[..., groups, slots, nodes]``."""
    return grouped.movedim(-3, -1).contiguous()


def _undo_nodes_last(grouped: Tensor) -> Tensor:
    """Undo :func:`_nodes_last`, as a view."""
    return grouped.movedim(-1, -3)
