"""Limits of virtual nodes without addresses: they cannot differ from one another or look up a label.

app:capacity.symmetry: virtual nodes that start equal and share their updates stay equal. prop:separable: every output
of the form ``f(h_j) + g(z)`` has mixed difference 0, but the task needs 2; FiLM is not of that form.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.ops import write
from mooring.theory.claim import Evidence, Series
from mooring.theory.instances import random_permutations

# Matrix products may be blocked differently for equal rows, so clones agree only up to rounding.
ROUNDING = 1e-12

Start = Callable[[int, int, torch.Generator], Float64[Tensor, "copies dim"]]


def cloned(copies: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "copies dim"]:
    """Draw one random state and copy it."""
    return torch.randn(1, dim, generator=generator, dtype=torch.float64).expand(copies, -1).clone()


def one_differs(copies: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "copies dim"]:
    """Draw clones that differ in one coordinate of the last."""
    states = cloned(copies, dim, generator)
    states[-1, 0] += 1e-3
    return states


def spread(start: Start, copies: int, depth: int, generator: torch.Generator) -> list[float]:
    """Return the largest distance between virtual nodes after each layer of a random network on a random graph.

    In a layer every virtual node attends to all nodes and adds the log mass to its read; then nodes are updated from
    their neighbours and all virtual nodes. Virtual nodes share weights, which differ between layers.
    """
    dim, nodes = 9, int(torch.randint(3, 20, (), generator=generator))
    adjacency = (torch.rand(nodes, nodes, generator=generator) < 0.3).double()
    hidden = torch.randn(nodes, dim, generator=generator, dtype=torch.float64)
    states = start(copies, dim, generator)
    gaps = []
    for _ in range(depth):
        weights = torch.randn(5, dim, dim, generator=generator, dtype=torch.float64) / dim**0.5
        queries, same, context, local, back = weights
        state = write((states @ queries).unsqueeze(1), hidden.unsqueeze(1), hidden.unsqueeze(1))
        message = state.content[0, :, 0] + state.log_mass[0]
        states = (states @ same + message @ context).tanh()
        hidden = (hidden @ same + adjacency @ hidden @ local + states.sum(dim=0) @ back).tanh()
        gaps.append(float((states - states[:1]).abs().max()))
    return gaps


def check_symmetry(start: Start, instances: int, generator: torch.Generator) -> Evidence:
    """Check that the virtual nodes agree up to rounding after each of 16 layers."""
    depth, copies = 16, 5
    gaps = torch.tensor([spread(start, copies, depth, generator) for _ in range(instances)], dtype=torch.float64)
    series = Series(
        title=f"Largest distance between {copies} virtual nodes",
        x=list(range(1, depth + 1)),
        lines=(
            # A logarithmic axis has no zero: exact equality is drawn at 1e-17, below any rounding error.
            ("equal start", gaps.amax(dim=0).clamp(min=1e-17).tolist()),
            ("one coordinate differs by 1e-3", spread(one_differs, copies, depth, generator)),
        ),
        xlabel="layer",
        ylabel="distance",
        log="y",
    )
    worst = float(gaps.max())
    note = f"largest distance after any of {depth} layers {worst:.1e}"
    return Evidence(worst <= ROUNDING, worst, instances, note, (series,))


Decoder = Callable[[Float64[Tensor, "batch targets n"]], Float64[Tensor, "batch targets n"]]
"""Maps one-hot label tables, one per graph, to target outputs."""

DecoderDraw = Callable[[int, torch.Generator], Decoder]


def mixed_difference(output: Float64[Tensor, "2 2 n"]) -> Float64[Tensor, " n"]:
    """Return ``y_p(z) - y_q(z) - y_p(z') + y_q(z')``, which is zero for every output of the form ``f(h) + g(z)``."""
    return output[0, 0] - output[0, 1] - output[1, 0] + output[1, 1]


def random_separable(n: int, generator: torch.Generator) -> Decoder:
    """Draw ``f(h_j) + g(z)`` with a free table for f and a random network of the whole label table for g."""
    target_term = torch.randn(n, n, generator=generator, dtype=torch.float64)
    first = torch.randn(n * n, 31, generator=generator, dtype=torch.float64) / n
    second = torch.randn(31, n, generator=generator, dtype=torch.float64)
    return lambda table: target_term + ((table.flatten(1) @ first).tanh() @ second).unsqueeze(1)


def best_separable(n: int, generator: torch.Generator) -> Decoder:
    """Return the least-squares optimum over all ``f(h_j) + g(z)``: the mean of the one-hot labels, 1/n everywhere."""
    del generator
    return lambda table: torch.full_like(table, 1 / n)


def either_separable(n: int, generator: torch.Generator) -> Decoder:
    """Draw one of the two separable decoders above at random."""
    draw = (random_separable, best_separable)[int(torch.randint(2, (), generator=generator))]
    return draw(n, generator)


def film_lookup(n: int, generator: torch.Generator) -> Decoder:
    """Return global FiLM with hand-set weights: the scale selects the target's block of one broadcast state.

    The state is the whole table, ``h_j`` is 1 on block j and 0 elsewhere, ``gamma = z - 1``, and a fixed linear map
    sums the blocks.

    Paper: eq:global-slot-film.
    """
    del generator
    block_mask = torch.eye(n, dtype=torch.float64).repeat_interleave(n, dim=1)
    add_blocks = torch.eye(n, dtype=torch.float64).repeat(n, 1)

    def decode(table: Float64[Tensor, "batch targets n"]) -> Float64[Tensor, "batch targets n"]:
        gamma = table.flatten(1).unsqueeze(1) - 1
        return ((1 + gamma) * block_mask) @ add_blocks

    return decode


def check_separable(draw: DecoderDraw, instances: int, generator: torch.Generator) -> Evidence:
    """Check that on two permutations one swap apart the mixed difference is zero and some answer is off by at least
    1/2.
    """
    worst_difference, least_error = 0.0, math.inf
    for _ in range(instances):
        n = int(torch.randint(2, 14, (), generator=generator))
        first = random_permutations(1, n, generator)[0]
        pair = torch.randperm(n, generator=generator)[:2]
        swapped = first.clone()
        swapped[pair] = first[pair.flip(0)]
        truth = torch.nn.functional.one_hot(torch.stack([first, swapped]), n).double()
        output = draw(n, generator)(truth)
        worst_difference = max(worst_difference, float(mixed_difference(output[:, pair]).abs().max()))
        least_error = min(least_error, float((output - truth)[:, pair].abs().max()))
    # The task's mixed difference is +-2, so at least one of the four errors that add up to it is 1/2 or more.
    passed = worst_difference < 1e-9 and least_error >= 0.5 - 1e-9
    note = f"largest mixed difference {worst_difference:.1e} (the task needs 2), least worst error {least_error:.3f}"
    return Evidence(passed, least_error - 0.5, instances, note)
