"""``map_heads`` equals its formula on values and all gradients, for any strides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops.heads import VECTOR, softmax_over_slots, softmax_over_slots_backward
from support import assert_close, with_gradients

GRAPHS, SLOTS, HEADS, DIM, OUT = 3, 5, 2, 4, 7


def written_out(x: Tensor, weight: Tensor) -> Tensor:
    return (x.unsqueeze(-2) * weight).sum(dim=-1)


def inputs(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((GRAPHS, SLOTS, HEADS, DIM), (HEADS, OUT, DIM))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("heads_first", [False, True], ids=["heads inside", "heads first"])
def test_equals_the_formula(heads_first: bool, dtype: torch.dtype) -> None:
    x, weight = inputs(dtype)
    if heads_first:
        x, weight = x.transpose(1, 2).contiguous().transpose(1, 2), weight.transpose(1, 2).contiguous().transpose(1, 2)
    actual, actual_gradients = with_gradients(ops.map_heads, x, weight)
    expected, expected_gradients = with_gradients(written_out, *inputs())
    for one, other in zip([*actual, *actual_gradients], [*expected, *expected_gradients], strict=True):
        assert_close(one, other)


def test_gradcheck() -> None:
    leaves = [tensor.requires_grad_() for tensor in inputs()]
    assert torch.autograd.gradcheck(ops.map_heads, leaves, check_batched_grad=True)


def test_no_graphs() -> None:
    x, weight = inputs()
    (out,), gradients = with_gradients(ops.map_heads, x[:0], weight)
    assert out.shape == (0, SLOTS, HEADS, OUT)
    assert all(not gradient.any() for gradient in gradients)


def test_under_autocast_the_product_has_the_dtype_of_its_input() -> None:
    x, weight = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.map_heads(x.bfloat16(), weight).dtype == torch.bfloat16
        assert ops.map_heads(x, weight).dtype == torch.float32


def test_the_comparison_can_fail() -> None:
    """Control: with the matrices of the heads exchanged the outputs differ by far more than the tolerance."""
    x, weight = inputs()
    with pytest.raises(AssertionError):
        assert_close(ops.map_heads(x, weight.flip(0)), written_out(x, weight))


@pytest.mark.parametrize("slots", [3, VECTOR, VECTOR + 1])
def test_a_softmax_over_few_or_many_slots_and_its_gradient(slots: int) -> None:
    scores = torch.randn(5, 2 * slots, dtype=torch.float64, requires_grad=True)
    right = scores.unflatten(-1, (2, slots)).softmax(-1).flatten(-2)
    weights = softmax_over_slots(scores, groups=2)
    assert_close(weights, right)
    slope = torch.randn_like(right)
    (expected,) = torch.autograd.grad(right, scores, slope)
    assert_close(softmax_over_slots_backward(slope, weights.detach(), groups=2), expected)
