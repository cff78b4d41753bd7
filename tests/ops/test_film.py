"""Slot-FiLM in tiles equals its formula, on values and all gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mooring import ops
from support import WAYS, Draw, assert_as_exact, assert_close, tile_sizes, with_gradients

NODES, CHANNELS, HIDDEN = 101, 3, 5
SHAPES = ((NODES, CHANNELS), (NODES, HIDDEN), (HIDDEN, CHANNELS), (HIDDEN,), (2 * CHANNELS, HIDDEN), (2 * CHANNELS,))


def written_out(x: Tensor, context: Tensor, w_n: Tensor, b_n: Tensor, w_f: Tensor, b_f: Tensor) -> Tensor:
    gamma, beta = (torch.nn.functional.gelu(x @ w_n.T + b_n + context) @ w_f.T + b_f).chunk(2, dim=1)
    return (1 + 0.5 * gamma.tanh()) * x + beta.tanh()


def inputs(dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in SHAPES]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("tile", WAYS, ids=str)
def test_equals_the_formula(tile: tuple[int, int, int], dtype: torch.dtype) -> None:
    with tile_sizes(*tile):
        actual, actual_gradients = with_gradients(ops.film, *inputs(dtype))
    expected, expected_gradients = with_gradients(written_out, *inputs())
    for one, other in zip([*actual, *actual_gradients], [*expected, *expected_gradients], strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_is_as_exact_as_the_formula(dtype: torch.dtype) -> None:
    """Compare the error with that of the formula, in half precision and for many tiles too."""

    def exact(*tensors: Tensor) -> Tensor:
        return written_out(*(tensor.double() for tensor in tensors))

    assert_as_exact([Draw(ops.film, written_out, exact, inputs(dtype, seed)) for seed in range(10)])


@pytest.mark.parametrize("tile", WAYS, ids=str)
def test_gradcheck(tile: tuple[int, int, int]) -> None:
    leaves = [tensor.requires_grad_() for tensor in inputs()]
    with tile_sizes(*tile):
        assert torch.autograd.gradcheck(ops.film, leaves, fast_mode=True, check_batched_grad=True)


def test_no_nodes() -> None:
    x, context, *parameters = inputs()
    (out,), gradients = with_gradients(ops.film, x[:0], context[:0], *parameters)
    assert out.shape == (0, CHANNELS)
    assert all(not gradient.any() for gradient in gradients)


def test_the_comparison_can_fail() -> None:
    """Control: without the bound on gamma the outputs differ by far more than the tolerance."""
    x, context, w_n, b_n, w_f, b_f = inputs()
    gamma, beta = (torch.nn.functional.gelu(x @ w_n.T + b_n + context) @ w_f.T + b_f).chunk(2, dim=1)
    with pytest.raises(AssertionError):
        assert_close((1 + 0.5 * gamma) * x + beta.tanh(), ops.film(x, context, w_n, b_n, w_f, b_f))
