"""The softmax over slots, laid out as a CPU likes it."""

from __future__ import annotations

import torch
from torch import Tensor

# PyTorch's softmax over a last axis shorter than a vector register works one number at a time. Over 8 slots it was
# 7 times slower than along another axis, and over 16 slots twice as fast.
VECTOR = 16


def softmax_over_slots(scores: Tensor, groups: int) -> Tensor:
    """``[..., places, groups * slots]`` -> the same with a softmax within each group."""
    slots = scores.size(-1) // groups
    grouped = scores.unflatten(-1, (groups, slots))
    if slots >= VECTOR:
        return grouped.softmax(dim=-1).flatten(-2)
    return _by_place(_by_slot(grouped).softmax(dim=-2)).flatten(-2)


def softmax_over_slots_backward(grad: Tensor, weights: Tensor, groups: int) -> Tensor:
    """Gradients of weights and the weights -> gradients of scores."""
    slots = weights.size(-1) // groups
    grouped, weights = grad.unflatten(-1, (groups, slots)), weights.unflatten(-1, (groups, slots))
    if slots >= VECTOR:
        return torch._softmax_backward_data(grouped, weights, -1, weights.dtype).flatten(-2)
    back = torch._softmax_backward_data(_by_slot(grouped), _by_slot(weights), -2, weights.dtype)
    return _by_place(back).flatten(-2)


def _by_slot(grouped: Tensor) -> Tensor:
    """``[..., places, groups, slots]`` -> ``[..., groups, slots, places]``, copied unless it lies so already."""
    return grouped.movedim(-3, -1).contiguous()


def _by_place(grouped: Tensor) -> Tensor:
    """The other way round, as a view."""
    return grouped.movedim(-1, -3)
