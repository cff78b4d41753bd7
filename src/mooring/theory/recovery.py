"""The rate-distortion curve held against optimal codebooks found by search, and against slots that store a part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from mooring.theory.claim import Claim, Evidence
from mooring.theory.construction import AddressedTable
from mooring.theory.curve import distortion_series, label_series
from mooring.theory.distortion import (
    recovery_by_codebook,
    recovery_by_table,
    recovery_ceiling,
    stored_identifiers,
)
from mooring.theory.instances import table_instances
from mooring.theory.permutations import all_permutations

Words = Callable[[int, int], int]
"""Maps (n, bits) to the number of answer words a scheme really uses."""


def agreements(n: int) -> Int64[Tensor, "words permutations"]:
    """In how many places each of the ``n^n`` answer words agrees with each permutation."""
    words = torch.tensor(list(itertools.product(range(n), repeat=n)))
    return (words.unsqueeze(1) == all_permutations(n)).sum(dim=2)


def best_recovery(n: int, words: int) -> tuple[float, bool]:
    """The best average recovery of a codebook of that many words, and whether the search was exhaustive.

    Every codebook is tried where that is feasible; otherwise words are added greedily and then exchanged one by one
    until no exchange helps, which gives a codebook that exists, hence a lower bound on the best.
    """
    agreement = agreements(n)
    total = agreement.shape[1] * n
    if math.comb(len(agreement), words) <= 40_000:
        chosen = torch.combinations(torch.arange(len(agreement)), words)
        return float(agreement[chosen].amax(dim=1).sum(dim=1).max()) / total, True
    kept: list[int] = []
    best = torch.zeros(agreement.shape[1], dtype=torch.long)
    for _ in range(words):
        kept.append(int(torch.maximum(agreement, best).sum(dim=1).argmax()))
        best = torch.maximum(best, agreement[kept[-1]])
    improved = True
    while improved:
        improved = False
        for place in range(words):
            others = agreement[[*kept[:place], *kept[place + 1 :]]].amax(dim=0)
            scores = torch.maximum(agreement, others).sum(dim=1)
            if int(scores.max()) > int(torch.maximum(agreement[kept[place]], others).sum()):
                kept[place], improved = int(scores.argmax()), True
    return float(agreement[kept].amax(dim=0).sum()) / total, False


def check_curve(words: Words, instances: int, generator: torch.Generator) -> Evidence:
    """Searched codebooks lie between achievability and ceiling at every budget. ``instances`` is the largest n."""
    del generator
    examined, slack, exhaustive, note = 0, math.inf, 0, ""
    for n in range(2, instances + 1):
        for bits in range(math.ceil(math.log2(math.factorial(n)))):
            recovery, complete = best_recovery(n, words(n, bits))
            examined, exhaustive = examined + 1, exhaustive + complete
            slack = min(slack, recovery_ceiling(n, bits) - recovery)
            lower, upper = recovery_by_codebook(n, bits), recovery_ceiling(n, bits)
            if slack < -1e-12 or recovery < lower - 1e-12:
                note = f"n={n}, {bits} bits: recovery {recovery:.3f}, the curves say {lower:.3f} to {upper:.3f}"
                return Evidence(False, slack, examined, note)
    steps = [28.8 * step / 100 for step in range(101)]
    widest = max(recovery_ceiling(12, bits) - recovery_by_codebook(12, bits) for bits in steps)
    note = f"{exhaustive} of {examined} budgets searched exhaustively; at n=12 the two curves are {widest:.3f} apart"
    return Evidence(True, slack, examined, note, (distortion_series(12), label_series(10)))


Guess = Callable[[Int64[Tensor, "graphs n"], int], Int64[Tensor, "graphs unstored"]]
"""Maps permutations and the number of stored identifiers to guesses for the others, as a decoder would make them."""


def unused_label(permutations: Int64[Tensor, "graphs n"], stored: int) -> Int64[Tensor, "graphs unstored"]:
    """The smallest label that the stored part leaves over, for every other target: one of them is right."""
    return permutations[:, stored:].min(dim=1, keepdim=True).values.expand(-1, permutations.shape[1] - stored)


def any_label(permutations: Int64[Tensor, "graphs n"], stored: int) -> Int64[Tensor, "graphs unstored"]:
    """Label 0, without a look at the stored part."""
    return torch.zeros_like(permutations[:, stored:])


def partial_recovery(n: int, slots: int, stored: int, guess: Guess) -> Float64[Tensor, ""]:
    """Mean recovery over all n! permutations of addressed slots that keep the first ``stored`` labels only."""
    permutations = all_permutations(n)
    right = (guess(permutations, stored) == permutations[:, stored:]).sum()
    if stored:
        # Identifiers keep their labels below n, so the table is built for n and written by the stored sources only.
        nodes = table_instances(permutations)
        table = AddressedTable(n, slots, bits=3)
        kept = nodes.take((nodes.identifier < stored).nonzero().squeeze(1))
        sizes = torch.bincount(torch.arange(stored) % slots, minlength=slots).clamp(min=1)
        memory = table.write(kept, members=sizes).round().long()
        right = right + (table.read(memory, kept) == kept.label).sum()
    return right.double() / permutations.numel()


def check_table(guess: Guess, instances: int, generator: torch.Generator) -> Evidence:
    """Slots that store what fits recover exactly the table's curve, at every budget. ``instances`` is the largest n."""
    del generator
    examined, worst, note = 0, 0.0, ""
    for n in range(2, instances + 1):
        for stored in range(n):
            bits = math.log2(math.factorial(n) / math.factorial(n - stored))
            assert stored_identifiers(n, bits) in (stored, n)
            gap = abs(float(partial_recovery(n, min(2, n), stored, guess)) - recovery_by_table(n, bits))
            examined += math.factorial(n)
            if gap >= worst:
                worst, note = gap, f"largest gap {gap:.1e}, at n={n} with {stored} labels stored in {bits:.1f} bits"
    return Evidence(worst < 1e-12, worst, examined, note)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="sec:discussion.distortion",
        statement="With B < log2(n!) bits, best average recovery lies between a random codebook's and the ceiling.",
        check=check_curve,
        subject=lambda n, bits: min(2**bits, math.factorial(n)),
        control=lambda n, bits: min(2 ** (bits + 1), math.factorial(n)),
        control_means="premise removed: the encoder uses one bit more than the budget says",
        margin_means="least distance of the best codebook found below the ceiling, in share of labels",
        instances=5,
    ),
    Claim(
        label="sec:discussion.table",
        statement="Slots that store the labels that fit, and targets that guess the rest, recover (k + 1) / n.",
        check=check_table,
        subject=unused_label,
        control=any_label,
        control_means="targets guess without a look at what is stored",
        margin_means="largest gap between measured recovery and the formula",
        instances=6,
    ),
)
