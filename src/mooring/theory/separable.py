"""A broadcast added to each target cannot look anything up: the mixed difference shows it, and FiLM escapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.theory.claim import Claim, Evidence
from mooring.theory.permutations import random_permutations

Decoder = Callable[[Float64[Tensor, "batch targets n"]], Float64[Tensor, "batch targets n"]]
"""Maps the one-hot label tables of a batch of instances to what its targets answer."""

DecoderDraw = Callable[[int, torch.Generator], Decoder]


def mixed_difference(output: Float64[Tensor, "2 2 n"]) -> Float64[Tensor, " n"]:
    """``y_p(z) - y_q(z) - y_p(z') + y_q(z')``: zero for every output of the form ``f(h) + g(z)``."""
    return output[0, 0] - output[0, 1] - output[1, 0] + output[1, 1]


def random_separable(n: int, generator: torch.Generator) -> Decoder:
    """``f(h_j) + g(z)`` with a free table for f and a random network of the whole label table for g."""
    own = torch.randn(n, n, generator=generator, dtype=torch.float64)
    first = torch.randn(n * n, 31, generator=generator, dtype=torch.float64) / n
    second = torch.randn(31, n, generator=generator, dtype=torch.float64)
    return lambda table: own + ((table.flatten(1) @ first).tanh() @ second).unsqueeze(1)


def best_separable(n: int, generator: torch.Generator) -> Decoder:
    """The least-squares optimum over all ``f(h_j) + g(z)``: for each instance the mean label, so 1/n everywhere."""
    del generator
    return lambda table: torch.full_like(table, 1 / n)


def either_separable(n: int, generator: torch.Generator) -> Decoder:
    """One of the two above, by chance."""
    draw = (random_separable, best_separable)[int(torch.randint(2, (), generator=generator))]
    return draw(n, generator)


def film_lookup(n: int, generator: torch.Generator) -> Decoder:
    """Global FiLM with hand-set weights: the scale selects the target's block of one broadcast state.

    The state is the whole table, ``h_j`` is 1 on block j and 0 elsewhere, ``gamma = z - 1``, and a fixed linear map
    adds the blocks up.

    Paper: eq:global-slot-film.
    """
    del generator
    own = torch.eye(n, dtype=torch.float64).repeat_interleave(n, dim=1)
    add_blocks = torch.eye(n, dtype=torch.float64).repeat(n, 1)

    def decode(table: Float64[Tensor, "batch targets n"]) -> Float64[Tensor, "batch targets n"]:
        gamma = table.flatten(1).unsqueeze(1) - 1
        return ((1 + gamma) * own) @ add_blocks

    return decode


def check_separable(draw: DecoderDraw, instances: int, generator: torch.Generator) -> Evidence:
    """On two permutations one swap apart the mixed difference is zero, so some answer is off by at least 1/2."""
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
    # The task's mixed difference is +-2 and four errors must make it up, so one of them is 1/2 or more.
    passed = worst_difference < 1e-9 and least_error >= 0.5 - 1e-9
    note = f"largest mixed difference {worst_difference:.1e} (the task needs 2), least worst error {least_error:.3f}"
    return Evidence(passed, least_error - 0.5, instances, note)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="prop:separable",
        statement="No decoder f(h_j) + g(z) realises both of two permutations that differ by one swap.",
        check=check_separable,
        subject=either_separable,
        control=film_lookup,
        control_means="premise removed: a FiLM decoder, hand-set, which is not separable and looks every label up",
        margin_means="least over instances of the worst error of an answer, minus 1/2",
        instances=300,
    ),
)
