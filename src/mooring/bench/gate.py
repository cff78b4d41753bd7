"""No timing of a wrong result: the fast path meets the oracle on every shape before the clock starts."""

from __future__ import annotations

import torch
from torch import Tensor

from mooring import ops
from mooring.ops import reference

TOLERANCE = 1e-10


class WrongResult(ValueError):
    """The fast path does not agree with the oracle."""


def check_oracle(batch: Tensor) -> float:
    """Compare write and read with the oracle on a thinned copy of the batch, values and gradients; return the error.

    The copy keeps every graph's share of nodes but at most a few hundred of them: the oracle is a Python loop.
    """
    step = max(batch.numel() // 300, 1)
    index = batch[::step].unique(return_inverse=True)[1]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(index.numel(), 1, 5, dtype=torch.float64, generator=generator)
    query = torch.randn(3, 2, 5, dtype=torch.float64, generator=generator)
    graphs = int(index.max()) + 1
    slope = torch.randn(graphs, 3, 2, 5, dtype=torch.float64, generator=generator)
    results = []
    for module in (ops, reference):
        inputs = [x.clone().requires_grad_(), query.clone().requires_grad_()]
        state = module.write(inputs[1], inputs[0], inputs[0], index)
        context = module.read(inputs[0].expand(-1, 2, -1), inputs[1], state.content, index)
        loss = (state.content * slope).sum() + state.log_mass.sum() + context.square().sum()
        results.append([state.content, state.log_mass, context, *torch.autograd.grad(loss, inputs)])
    error = max(float((fast - slow).detach().abs().max()) for fast, slow in zip(*results, strict=True))
    if not error <= TOLERANCE:
        raise WrongResult(
            f"bench: write or read differs from the oracle by {error:.3g}, above {TOLERANCE:g}. "
            "Nothing was timed; run the tests of mooring.ops."
        )
    return error
