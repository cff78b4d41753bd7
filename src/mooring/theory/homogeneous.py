"""Limits of virtual nodes without addresses: they cannot differ from one another or look up a label."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from mooring.ops import write
from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.instances import normal, random_permutations

Start = Callable[[int, int, Generator], Float64[Tensor, "copies dim"]]


def cloned(copies: int, dim: int, generator: Generator) -> Float64[Tensor, "copies dim"]:
    """Draw one random state and copy it."""
    return normal(generator, 1, dim).expand(copies, -1).clone()


def one_differs(copies: int, dim: int, generator: Generator) -> Float64[Tensor, "copies dim"]:
    """Draw clones that differ in one coordinate of the last."""
    states = cloned(copies, dim, generator)
    states[-1, 0] += 1e-3
    return states


def spread(start: Start, copies: int, depth: int, generator: Generator) -> list[float]:
    """Return the largest distance between virtual nodes after each layer of a random network on a random graph.

    In a layer every virtual node attends to all nodes and adds the log mass to its read; then nodes are updated from
    their neighbours and all virtual nodes. Virtual nodes share weights, which differ between layers.
    """
    dim, nodes = 9, int(torch.randint(3, 20, (), generator=generator))
    adjacency = (torch.rand(nodes, nodes, generator=generator) < 0.3).double()
    hidden = normal(generator, nodes, dim)
    states = start(copies, dim, generator)
    gaps = []
    for _ in range(depth):
        queries, same, context, local, back = normal(generator, 5, dim, dim) / dim**0.5
        state = write((states @ queries).unsqueeze(1), hidden.unsqueeze(1), hidden.unsqueeze(1))
        message = state.content[0, :, 0] + state.log_mass[0]
        states = (states @ same + message @ context).tanh()
        hidden = (hidden @ same + adjacency @ hidden @ local + states.sum(dim=0) @ back).tanh()
        gaps.append(float((states - states[:1]).abs().max()))
    return gaps


@claim(
    "app:capacity.symmetry",
    "M virtual nodes with equal starts, neighbourhoods and shared updates stay equal through any depth.",
    subject=cloned,
    controls={"premise removed: one coordinate of one initial state differs by 1e-3": one_differs},
    margin_means="largest distance between two clones after any layer; rounding allows 1e-12",
    instances=60,
)
def symmetry(start: Start, instances: int, generator: Generator) -> Evidence:
    """Check that the virtual nodes agree up to rounding after each of 16 layers."""
    depth, copies = 16, 5
    gaps = torch.tensor([spread(start, copies, depth, generator) for _ in range(instances)], dtype=torch.float64)
    lines = (
        # A logarithmic axis has no zero: exact equality is drawn at 1e-17, below any rounding error.
        ("equal start", gaps.amax(dim=0).clamp(min=1e-17).tolist()),
        ("one coordinate differs by 1e-3", spread(one_differs, copies, depth, generator)),
    )
    title = f"Largest distance between {copies} virtual nodes"
    series = Series(title, list(range(1, depth + 1)), lines, "layer", "distance", "y")
    worst = float(gaps.max())
    # Matrix products may be blocked differently for equal rows, so clones agree only up to rounding.
    note = f"largest distance after any of {depth} layers {worst:.1e}"
    return Evidence(worst <= 1e-12, worst, instances, note, (series,))


Decoder = Callable[[Float64[Tensor, "batch targets n"]], Float64[Tensor, "batch targets n"]]
"""Maps one-hot label tables, one per graph, to target outputs."""


def mixed_difference(output: Float64[Tensor, "2 2 n"]) -> Float64[Tensor, " n"]:
    """Return ``y_p(z) - y_q(z) - y_p(z') + y_q(z')``, which is zero for every output of the form ``f(h) + g(z)``."""
    return output[0, 0] - output[0, 1] - output[1, 0] + output[1, 1]


def random_separable(n: int, generator: Generator) -> Decoder:
    """Draw ``f(h_j) + g(z)`` with a free table for f and a random network of the whole label table for g."""
    target_term, first, second = normal(generator, n, n), normal(generator, n * n, 31) / n, normal(generator, 31, n)
    return lambda table: target_term + ((table.flatten(1) @ first).tanh() @ second).unsqueeze(1)


def best_separable(n: int, generator: Generator) -> Decoder:
    """Return the least-squares optimum over all ``f(h_j) + g(z)``: the mean of the one-hot labels, 1/n everywhere."""
    return lambda table: torch.full_like(table, 1 / n)


def either_separable(n: int, generator: Generator) -> Decoder:
    """Draw one of the two separable decoders above at random."""
    draw = (random_separable, best_separable)[int(torch.randint(2, (), generator=generator))]
    return draw(n, generator)


def film_lookup(n: int, generator: Generator) -> Decoder:
    """Return global FiLM with hand-set weights: the scale selects the target's block of one broadcast state.

    The state is the whole table, ``h_j`` is 1 on block j and 0 elsewhere, ``gamma = z - 1``, and a fixed linear map
    sums the blocks.

    Paper: eq:global-slot-film.
    """
    block_mask = torch.eye(n, dtype=torch.float64).repeat_interleave(n, dim=1)
    add_blocks = torch.eye(n, dtype=torch.float64).repeat(n, 1)

    def decode(table: Float64[Tensor, "batch targets n"]) -> Float64[Tensor, "batch targets n"]:
        gamma = table.flatten(1).unsqueeze(1) - 1
        return ((1 + gamma) * block_mask) @ add_blocks

    return decode


@claim(
    "prop:separable",
    "No decoder f(h_j) + g(z) realises both of two permutations that differ by one swap.",
    subject=either_separable,
    controls={
        "premise removed: a FiLM decoder, hand-set, which is not separable and looks every label up": film_lookup
    },
    margin_means="least over instances of the worst error of an answer, minus 1/2",
    instances=300,
)
def separability(draw: Callable[[int, Generator], Decoder], instances: int, generator: Generator) -> Evidence:
    """Check that the mixed difference of two swapped permutations is zero, and some answer off by at least 1/2."""
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
