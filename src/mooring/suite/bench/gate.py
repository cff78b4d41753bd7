"""Gate of the benchmarks: the fast path is compared with the oracle on every shape before timing."""

from __future__ import annotations

import torch
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState, reference

TOLERANCE = 1e-10
# Nodes for the oracle, which is a Python loop, and for the plain formula, which must cover several tiles.
FEW, MANY = 300, 20_000
SLOTS, HEADS, DIM = 3, 2, 5


class WrongResult(ValueError):
    """Error of a fast path that does not agree with the oracle."""


def check_oracle(batch: Tensor) -> float:
    """Compare values and gradients of write and read with slow references; return the largest error.

    The oracle runs on a thinned copy of the batch, in which every graph keeps its share; the plain formula over all
    nodes at once runs on the first nodes. Both run on the device of the batch.
    """
    thinned = batch[:: max(batch.numel() // FEW, 1)].unique(return_inverse=True)[1]
    error = max(_compare(thinned, reference), _compare(batch[:MANY], _Plain))
    if not error <= TOLERANCE:
        raise WrongResult(
            f"bench: write or read differs from the oracle by {error:.3g}, above {TOLERANCE:g}. "
            "Nothing was timed; run the tests of mooring.ops."
        )
    return error


class _Plain:
    """Plain formulas over all nodes at once, with torch's autograd."""

    @staticmethod
    def write(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> SlotState:
        scores = torch.einsum("mhd,nhd->nmh", query, key.expand(-1, query.size(1), -1))
        graphs = int(index.max()) + 1
        where = index[:, None, None].expand_as(scores)
        top = scores.new_full((graphs, *scores.shape[1:]), float("-inf"))
        top = top.scatter_reduce(0, where, scores.detach(), "amax")
        masses = (scores - top[index]).exp()
        mass = torch.zeros_like(top).index_add(0, index, masses)
        parts = torch.einsum("nmh,nhd->nmhd", masses, value.expand(-1, query.size(1), -1))
        total = parts.new_zeros(graphs, *parts.shape[1:]).index_add(0, index, parts)
        return SlotState(total / mass.unsqueeze(-1), mass.log() + top)

    @staticmethod
    def read(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> Tensor:
        weights = torch.einsum("nhd,mhd->nmh", query, key).softmax(dim=1)
        return torch.einsum("nmh,nmhd->nhd", weights, value[index])


def _compare(index: Tensor, slow: object) -> float:
    generator = torch.Generator().manual_seed(0)
    shapes = (index.numel(), 1, DIM), (SLOTS, HEADS, DIM), (int(index.max()) + 1, SLOTS, HEADS, DIM)
    x, query, grad = (torch.randn(shape, dtype=torch.float64, generator=generator).to(index.device) for shape in shapes)
    results = []
    for module in (ops, slow):
        inputs = [x.clone().requires_grad_(), query.clone().requires_grad_()]
        state = module.write(inputs[1], inputs[0], inputs[0], index)  # type: ignore[attr-defined]
        context = module.read(inputs[0].expand(-1, HEADS, -1), inputs[1], state.content, index)  # type: ignore[attr-defined]
        # A mean, so that gradients have the same size for any number of nodes.
        loss = (state.content * grad).mean() + state.log_mass.mean() + context.square().mean()
        results.append([state.content, state.log_mass, context, *torch.autograd.grad(loss, inputs)])
    return max(float((fast - plain).detach().abs().max()) for fast, plain in zip(*results, strict=True))
