"""Slot-FiLM over many nodes: node and context in, modulated node out, nothing of their size in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mooring.ops import backend, plain
from mooring.ops.derivatives import gradients, must_trace
from mooring.ops.state import full_precision
from mooring.ops.tiles import layout

_gelu_backward = torch.ops.aten.gelu_backward


def film(
    x: Float[Tensor, "nodes channels"],
    context: Float[Tensor, "nodes hidden"],
    node_weight: Float[Tensor, "hidden channels"],
    node_bias: Float[Tensor, " hidden"],
    film_weight: Float[Tensor, "films hidden"],
    film_bias: Float[Tensor, " films"],
) -> Float[Tensor, "nodes channels"]:
    r"""Nodes and their contexts -> modulated nodes.

    .. math::
        [\hat\gamma_j, \hat\beta_j] = W_f \operatorname{gelu}(W_n h_j + b_n + O_j) + b_f, \qquad
        h_j^+ = (1 + \tfrac12 \tanh \hat\gamma_j) \odot h_j + \tanh \hat\beta_j

    Paper: ``eq:slot-film`` with the bounds of ``app:protocol``; the context is the right half of the first layer.

    Cost: works through many nodes in tiles and recomputes the modulation in the backward, so beyond inputs, output and
    gradients no memory grows with the nodes.

    >>> x = torch.randn(3, 2)
    >>> zero = torch.zeros
    >>> torch.equal(film(x, zero(3, 5), zero(5, 2), zero(5), zero(4, 5), zero(4)), x)
    True
    """
    inputs = (x, context, node_weight, node_bias, film_weight, film_bias)
    name = backend.choose(*inputs, small=lambda: x.numel() <= backend.SMALL_FILM)
    with full_precision(x.device):
        if name != "tiles":
            return plain.film(*inputs)
        return film_op(*inputs) if torch.compiler.is_compiling() else _Film.apply(*inputs)


def _modulation(
    x: Tensor, context: Tensor, node_weight: Tensor, node_bias: Tensor, film_weight: Tensor, film_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden layer before and after its activation, and ``[tanh gamma, tanh beta]``."""
    before = torch.addmm(node_bias, x, node_weight.t()).add_(context)
    hidden = torch.nn.functional.gelu(before)
    return before, hidden, torch.addmm(film_bias, hidden, film_weight.t()).tanh_()


def _tiles(x: Tensor) -> Iterator[slice]:
    return (slice(start, start + layout.TILE) for start in range(0, x.size(0), layout.TILE))


def _forward(
    x: Tensor, context: Tensor, node_weight: Tensor, node_bias: Tensor, film_weight: Tensor, film_bias: Tensor
) -> Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for rows in _tiles(x):
        gamma, beta = _modulation(x[rows], context[rows], node_weight, node_bias, film_weight, film_bias)[2].chunk(2, 1)
        torch.addcmul(beta, gamma, x[rows], value=0.5, out=out[rows]).add_(x[rows])
    return out


def _backward(
    grad: Tensor,
    x: Tensor,
    context: Tensor,
    node_weight: Tensor,
    node_bias: Tensor,
    film_weight: Tensor,
    film_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    grad_context = torch.empty_like(context, memory_format=torch.contiguous_format)
    grads = [torch.zeros_like(parameter) for parameter in (node_weight, node_bias, film_weight, film_bias)]
    for rows in _tiles(x):
        node, grad_out = x[rows], grad[rows]
        before, hidden, bounded = _modulation(node, context[rows], node_weight, node_bias, film_weight, film_bias)
        gamma = bounded[:, : x.size(1)]
        torch.addcmul(grad_out, grad_out, gamma, value=0.5, out=grad_x[rows])
        # d tanh = 1 - tanh^2, times what gamma and beta are multiplied by in the output.
        grad_film = torch.cat([(grad_out * node).mul_(0.5), grad_out], dim=1).mul_(bounded.square_().neg_().add_(1.0))
        grad_hidden = _gelu_backward(grad_film @ film_weight, before)
        grad_context[rows] = grad_hidden
        grad_x[rows].addmm_(grad_hidden, node_weight)
        grads[0].addmm_(grad_hidden.t(), node)
        grads[1] += grad_hidden.sum(dim=0)
        grads[2].addmm_(grad_film.t(), hidden)
        grads[3] += grad_film.sum(dim=0)
    return grad_x, grad_context, grads[0], grads[1], grads[2], grads[3]


class _Film(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return _forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs = ctx.saved_tensors
        with full_precision(grads[0].device):
            if must_trace(grads):
                return tuple(gradients(lambda *own: (plain.film(*own),), inputs, grads))
            return _backward(grads[0], *inputs)


film_op = torch.library.custom_op("mooring::film", _forward, mutates_args=())
film_backward_op = torch.library.custom_op("mooring::film_backward", _backward, mutates_args=())


@film_op.register_fake
def _(x: Tensor, *others: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@film_backward_op.register_fake
def _(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    with full_precision(grad.device):
        return film_backward_op(grad, *ctx.saved_tensors)


film_op.register_autograd(_gradients, setup_context=_save)
