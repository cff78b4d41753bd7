"""Average recovery below the capacity bound: upper and lower bounds for B bits (sec:discussion).

thm:lower requires every permutation in full. Here a permutation of n labels is uniform, an encoder stores B bits of it,
each target guesses, and recovery is the expected share of right guesses.

Converse. A decoder has at most ``2^B`` answer words. A fixed word agrees with a random permutation in t given places
with probability at most ``(n-t)!/n!``, so in t or more places with probability at most ``C(n,t) (n-t)!/n! = 1/t!``,
and in one place on average. Over ``2^B`` words the best agreement is therefore at most
``min(2^B, sum_t min(1, 2^B / t!))`` on average, which is n exactly if ``B >= log2 n!``: thm:lower is its end point.

Achievability. Draw the ``2^B`` words as independent random permutations: agreements are then independent numbers of
fixed points, and their expected maximum is ``sum_t 1 - (1 - P(F >= t))^(2^B)``. Some codebook is at least as good.

Not in the paper; rem:lower-scope and the first limitation of sec:discussion raise the question.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Generator, Tensor

from mooring.theory.capacity import required_bits
from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.construction import AddressedTable
from mooring.theory.instances import all_permutations, table_instances


def recovery_ceiling(n: int, bits: float) -> float:
    """Return an upper bound on the average share of a random permutation that any ``bits``-bit code recovers.

    Example:
        >>> recovery_ceiling(12, bits=0) == 1 / 12, recovery_ceiling(12, bits=29)
        (True, 1.0)
    """
    log_words = bits * math.log(2)
    agreement = sum(math.exp(min(0.0, log_words - math.lgamma(t + 1))) for t in range(1, n + 1))
    return min(agreement, math.exp(min(log_words, math.log(n)))) / n


def recovery_by_codebook(n: int, bits: float) -> float:
    """Return the average recovery of a random codebook of ``2^bits`` permutations; 1 from ``log2 n!`` bits upwards."""
    if bits >= required_bits(n):
        return 1.0
    agreement = 0.0
    for log_probability in fixed_point_log_tail(n):
        # 1 - (1 - p)^N through logarithms, for p down to 1/n! and N up to n!.
        log_rate = math.log(-math.log1p(-math.exp(log_probability))) if log_probability > -30 else log_probability
        agreement -= math.expm1(-math.exp(min(bits * math.log(2) + log_rate, 700.0)))
    return agreement / n


def stored_identifiers(n: int, bits: float) -> int:
    """Return how many labels of a table fit: the largest k with ``n!/(n-k)! <= 2^B``."""
    used = 0.0
    for k in range(n):
        used += math.log2(n - k)
        if used > bits + 1e-9:
            return k
    return n


def recovery_by_table(n: int, bits: float) -> float:
    """Return ``(k + 1) / n``: the k labels that fit are stored, and one guess of the others is right on average."""
    stored = stored_identifiers(n, bits)
    return min(n, stored + 1) / n


def label_recovery_ceiling(labels: int, bits_per_label: float) -> float:
    """Return the ceiling for independent uniform labels: one minus the distortion D at that rate.

    ``R(D) = log2 C - h(D) - D log2(C - 1)``, the rate-distortion function of a uniform source, inverted by bisection.
    """
    if bits_per_label >= math.log2(labels):
        return 1.0
    low, high = 0.0, 1.0 - 1.0 / labels
    for _ in range(200):
        middle = (low + high) / 2
        entropy = -middle * math.log2(middle) - (1 - middle) * math.log2(1 - middle)
        rate = math.log2(labels) - entropy - middle * math.log2(labels - 1)
        low, high = (middle, high) if rate > bits_per_label else (low, middle)
    return 1.0 - high


def fixed_point_log_tail(n: int) -> list[float]:
    """Return exact ``log P(F >= t)`` for t = 1..n; F is the number of fixed points of a random permutation."""
    derangements = [1, 0]
    for size in range(2, n + 1):
        derangements.append((size - 1) * (derangements[-1] + derangements[-2]))
    exactly = [math.comb(n, fixed) * derangements[n - fixed] for fixed in range(n + 1)]
    at_least = list(itertools.accumulate(reversed(exactly)))[::-1]
    return [math.log(count) - math.log(math.factorial(n)) for count in at_least[1:]]


def distortion_series(n: int) -> Series:
    """Return recovery over budget: the ceiling, a random codebook, and a stored table."""
    need = required_bits(n)
    grid = [need * step / 40 for step in range(45)]
    lines = (
        ("ceiling (no scheme does better)", [recovery_ceiling(n, bits) for bits in grid]),
        ("random codebook", [recovery_by_codebook(n, bits) for bits in grid]),
        ("stored table and guesses", [recovery_by_table(n, bits) for bits in grid]),
    )
    title = f"Average recovery below the bound, n={n} (log2 n! = {need:.1f} bits)"
    return Series(title, grid, lines, "bits of the memory", "share of labels recovered")


def label_series(labels: int) -> Series:
    """Return the recovery of independent labels over the bits per label."""
    need = math.log2(labels)
    grid = [need * step / 40 for step in range(45)]
    share = [min(1.0, bits / need) for bits in grid]
    lines = (
        ("ceiling (rate-distortion function)", [label_recovery_ceiling(labels, bits) for bits in grid]),
        ("stored table and guesses", [stored + (1 - stored) / labels for stored in share]),
    )
    title = f"Average recovery of independent labels, {labels} of them"
    return Series(title, grid, lines, "bits per label", "share of labels recovered")


def agreements(n: int) -> Int64[Tensor, "words permutations"]:
    """Count the places in which each of the ``n^n`` answer words agrees with each permutation."""
    words = torch.tensor(list(itertools.product(range(n), repeat=n)))
    return (words.unsqueeze(1) == all_permutations(n)).sum(dim=2)


def best_recovery(n: int, words: int) -> tuple[float, bool]:
    """Return the best average recovery of a codebook of ``words`` words, and whether the search was exhaustive.

    All codebooks are searched if feasible. Otherwise words are added greedily and then exchanged one by one until no
    exchange helps, which gives a lower bound.
    """
    agreement = agreements(n)
    total = agreement.shape[1] * n
    if math.comb(len(agreement), words) <= 40_000:
        chosen = torch.combinations(torch.arange(len(agreement)), words)
        return float(agreement[chosen].amax(dim=1).sum(dim=1).max()) / total, True
    codebook: list[int] = []
    best = torch.zeros(agreement.shape[1], dtype=torch.long)
    for _ in range(words):
        codebook.append(int(torch.maximum(agreement, best).sum(dim=1).argmax()))
        best = torch.maximum(best, agreement[codebook[-1]])
    improved = True
    while improved:
        improved = False
        for place in range(words):
            others = agreement[[*codebook[:place], *codebook[place + 1 :]]].amax(dim=0)
            scores = torch.maximum(agreement, others).sum(dim=1)
            if int(scores.max()) > int(torch.maximum(agreement[codebook[place]], others).sum()):
                codebook[place], improved = int(scores.argmax()), True
    return float(agreement[codebook].amax(dim=0).sum()) / total, False


@claim(
    "sec:discussion.distortion",
    "With B < log2(n!) bits, best average recovery lies between a random codebook's and the ceiling.",
    subject=lambda n, bits: min(2**bits, math.factorial(n)),
    controls={
        "premise removed: the encoder uses one bit more than the budget says": lambda n, bits: min(
            2 ** (bits + 1), math.factorial(n)
        )
    },
    margin_means="least distance of the best codebook found below the ceiling, in share of labels",
    instances=5,
    least=2,
)
def searched_recovery(words: Callable[[int, int], int], instances: int, generator: Generator) -> Evidence:
    """Check that searched codebooks of ``words(n, bits)`` words lie between the curves at every budget.

    ``instances`` is the largest n.
    """
    examined, slack, exhaustive, note = 0, math.inf, 0, ""
    for n in range(2, instances + 1):
        for bits in range(math.ceil(math.log2(math.factorial(n)))):
            recovery, complete = best_recovery(n, words(n, bits))
            lower, upper = recovery_by_codebook(n, bits), recovery_ceiling(n, bits)
            examined, exhaustive = examined + 1, exhaustive + complete
            slack = min(slack, upper - recovery)
            if slack < -1e-12 or recovery < lower - 1e-12:
                note = f"n={n}, {bits} bits: recovery {recovery:.3f}, the curves say {lower:.3f} to {upper:.3f}"
                return Evidence(False, slack, examined, note)
    steps = [28.8 * step / 100 for step in range(101)]
    widest = max(recovery_ceiling(12, bits) - recovery_by_codebook(12, bits) for bits in steps)
    note = f"{exhaustive} of {examined} budgets searched exhaustively; at n=12 the two curves are {widest:.3f} apart"
    return Evidence(True, slack, examined, note, (distortion_series(12), label_series(10)))


Guess = Callable[[Int64[Tensor, "graphs n"], int], Int64[Tensor, "graphs unstored"]]
"""Maps permutations and the number of stored identifiers to the guesses of the other targets."""


def unused_label(permutations: Int64[Tensor, "graphs n"], stored: int) -> Int64[Tensor, "graphs unstored"]:
    """Guess the smallest label that is not stored, for every other target: one of the guesses is right."""
    return permutations[:, stored:].min(dim=1, keepdim=True).values.expand(-1, permutations.shape[1] - stored)


def label_zero(permutations: Int64[Tensor, "graphs n"], stored: int) -> Int64[Tensor, "graphs unstored"]:
    """Guess label 0, independently of the memory."""
    return torch.zeros_like(permutations[:, stored:])


def partial_recovery(n: int, slots: int, stored: int, guess: Guess) -> float:
    """Return the mean recovery over all n! permutations, using slots that store the first ``stored`` labels only."""
    permutations = all_permutations(n)
    right = int((guess(permutations, stored) == permutations[:, stored:]).sum())
    if stored:
        # A stored label may be any of n, so the table is built for n identifiers and the stored ones write.
        nodes = table_instances(permutations)
        table = AddressedTable(n, slots, bits=3)
        sources = nodes.take((nodes.identifier < stored).nonzero().squeeze(1))
        sizes = torch.bincount(torch.arange(stored) % slots, minlength=slots).clamp(min=1)
        memory = table.write(sources, members=sizes).round().long()
        right += int((table.read(memory, sources) == sources.label).sum())
    return right / permutations.numel()


@claim(
    "sec:discussion.table",
    "Slots that store the labels that fit, and targets that guess the rest, recover (k + 1) / n.",
    subject=unused_label,
    controls={"targets guess without a look at what is stored": label_zero},
    margin_means="largest gap between measured recovery and the formula",
    instances=6,
    least=2,
)
def stored_recovery(guess: Guess, instances: int, generator: Generator) -> Evidence:
    """Check that slots that store the labels that fit recover exactly the table's curve, for n up to ``instances``."""
    examined, worst, note = 0, 0.0, ""
    for n in range(2, instances + 1):
        for stored in range(n):
            bits = math.log2(math.factorial(n) / math.factorial(n - stored))
            assert stored_identifiers(n, bits) in (stored, n)
            gap = abs(partial_recovery(n, min(2, n), stored, guess) - recovery_by_table(n, bits))
            examined += math.factorial(n)
            if gap >= worst:
                worst, note = gap, f"largest gap {gap:.1e}, at n={n} with {stored} labels stored in {bits:.1f} bits"
    return Evidence(worst < 1e-12, worst, examined, note)
