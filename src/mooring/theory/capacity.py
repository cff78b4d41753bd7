"""The capacity bound: the bits of a transcript that serves every permutation, ``L_eff d b >= log2(n!)``.

Below the bound two permutations share a transcript; at the bound all transcripts can differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.instances import all_permutations, all_tables, normal, random_permutations, rank


def required_bits(n: int) -> float:
    """Return ``log2(n!)``, the right-hand side of the capacity bound. Paper: eq:capacity.

    Example:
        >>> round(required_bits(12), 2)
        28.84
    """
    return math.log2(math.factorial(n))


def required_whole_bits(n: int) -> int:
    """Return ``ceil(log2(n!))``, in exact integer arithmetic."""
    return (math.factorial(n) - 1).bit_length()


def required_width(n: int, states: int, bits: int) -> int:
    """Return the least width ``d`` with ``L_eff d b >= log2(n!)``; ``L_eff`` is ``states``, ``b`` is ``bits``.

    Paper: thm:lower.

    Example:
        >>> required_width(n=12, states=4, bits=8)
        1
    """
    if min(n, states, bits) < 1:
        raise ValueError(
            f"required_width: n={n}, states={states}, bits={bits}, but each must be at least 1. "
            "A transcript has at least one state of at least one bit."
        )
    return -(-required_whole_bits(n) // (states * bits))


def construction_width(n: int, slots: int, bits: int, alphabet: int | None = None) -> int:
    """Return ``ceil(n/M) ceil(log2 C / b) + ceil(log2 M / b)``, the slot width of the addressable construction.

    C is ``alphabet``, the number of labels; n if None.

    Paper: eq:upper with its ``O(1)`` equal to 0, app:capacity.

    Example:
        >>> construction_width(n=12, slots=4, bits=8), construction_width(n=12, slots=4, bits=8, alphabet=1000)
        (4, 7)
    """
    return -(-n // slots) * label_digits(alphabet or n, bits) + label_digits(slots, bits)


def label_digits(count: int, bits: int) -> int:
    """Return ``ceil(log2(count) / b)``, the number of ``b``-bit coordinates that distinguish ``count`` labels."""
    return -(-(count - 1).bit_length() // bits)


def colliding_pair(items: Tensor, transcripts: Tensor) -> tuple[Any, Any] | None:
    """Return the first two items with equal transcripts as lists, or None if all transcripts differ."""
    unique, inverse = torch.unique(transcripts, dim=0, return_inverse=True)
    if len(unique) == len(transcripts):
        return None
    order = inverse.argsort(stable=True)
    repeated = (inverse[order[1:]] == inverse[order[:-1]]).nonzero()[0]
    return items[order[repeated]][0].tolist(), items[order[repeated + 1]][0].tolist()


@dataclass(frozen=True)
class Budget:
    """A transcript of ``states * width`` coordinates of ``bits`` bits for permutations of ``n``."""

    n: int
    states: int
    width: int
    bits: int

    @property
    def total_bits(self) -> int:
        return self.states * self.width * self.bits

    def digits(self, numbers: Tensor) -> Tensor:
        """Return the numbers modulo the capacity, as coordinates of ``bits`` bits each."""
        shifts = torch.arange(self.states * self.width) * self.bits
        shifted = numbers.unsqueeze(1) >> shifts.clamp(max=62)
        return torch.where(shifts < 62, shifted & ((1 << self.bits) - 1), 0)


Encoder = Callable[[Tensor, Budget, Generator], Tensor]
BudgetRule = Callable[[int, int, int], Budget]
"""Maps (n, states, bits) to a transcript's budget."""

Transcripts = tuple[Sequence[Encoder], BudgetRule]


def rank_transcript(permutations: Tensor, budget: Budget, generator: Generator) -> Tensor:
    """Encode the lexicographic rank modulo the capacity; no encoder has more distinct transcripts."""
    return budget.digits(rank(permutations))


def hashed_transcript(permutations: Tensor, budget: Budget, generator: Generator) -> Tensor:
    """Draw an independent random transcript for every permutation, which gives an arbitrary function."""
    count = math.factorial(budget.n)
    return torch.randint(1 << budget.bits, (count, budget.states * budget.width), generator=generator)


def network_transcript(permutations: Tensor, budget: Budget, generator: Generator) -> Tensor:
    """Encode with a mean-pooled two-layer network of the sources, its state rounded to the budget's coordinates."""
    n, hidden = budget.n, 17
    embedding = normal(generator, n, n, hidden)
    pooled = embedding[torch.arange(n), permutations].tanh().mean(dim=1)
    return _quantised(pooled @ normal(generator, hidden, budget.states * budget.width), budget.bits)


def layered_transcript(permutations: Tensor, budget: Budget, generator: Generator) -> Tensor:
    """Encode with several global layers: sources see the previous layer's state; the transcript is all states."""
    n, hidden = budget.n, 9
    nodes = normal(generator, n, n, hidden)[torch.arange(n), permutations]
    state = torch.zeros(len(permutations), budget.width, dtype=torch.float64)
    states = []
    for _ in range(budget.states):
        back, out = normal(generator, budget.width, hidden), normal(generator, hidden, budget.width)
        nodes = (nodes + (state @ back).unsqueeze(1)).tanh()
        # Scaled to the standard deviation of the sum, so that all levels are used.
        states.append(_quantised(nodes.sum(dim=1) @ out / n**0.5, budget.bits))
        state = states[-1].double() / (1 << budget.bits) - 0.5
    return torch.cat(states, dim=1)


def _quantised(values: Tensor, bits: int) -> Tensor:
    levels = 1 << bits
    return (values.sigmoid() * levels).floor().clamp(max=levels - 1).long()


def below_bound(n: int, states: int, bits: int) -> Budget:
    return Budget(n, states, required_width(n, states, bits) - 1, bits)


def at_bound(n: int, states: int, bits: int) -> Budget:
    return Budget(n, states, required_width(n, states, bits), bits)


# Budgets in which random draws find a pair: of 2^14 uniform transcripts of 22 bits, 32 pairs agree on average.
SEARCHED_BITS, DRAWN = 22, 1 << 14


def within_search(n: int, states: int, bits: int) -> Budget:
    """Return the largest budget below the bound in which random draws find a shared transcript."""
    most = min(SEARCHED_BITS, required_whole_bits(n) - 1)
    return Budget(n, states, most // (states * bits), bits)


ENCODERS: tuple[Encoder, ...] = (rank_transcript, hashed_transcript, network_transcript)
LAYERED: tuple[Encoder, ...] = (rank_transcript, layered_transcript)
FACTORIZATIONS = ((1, 1), (1, 3), (2, 1), (3, 2), (5, 1))


@claim(
    "thm:lower",
    "With L_eff d b < log2(n!) two permutations share a transcript, so no decoder serves both.",
    subject=(ENCODERS, below_bound),
    controls={"premise removed: one coordinate more, which reaches the bound": (ENCODERS, at_bound)},
    margin_means="fewest bits by which a budget fell short and a pair still had to collide",
    instances=7,
    least=3,
)
def collision(subject: Transcripts, instances: int, generator: Generator) -> Evidence:
    """Check that every encoder maps two permutations to one transcript. ``instances`` is the largest n."""
    encoders, budget_for = subject
    examined, shortest, note = 0, math.inf, ""
    for n in range(3, instances + 1):
        permutations = all_permutations(n)
        for states, bits in FACTORIZATIONS:
            budget = budget_for(n, states, bits)
            missing = required_bits(n) - budget.total_bits
            for encoder in encoders if budget.width else ():
                examined += 1
                pair = colliding_pair(permutations, encoder(permutations, budget, generator))
                if pair is None:
                    note = f"n={n}: {encoder.__name__} tells all {math.factorial(n)} apart in {budget.total_bits} bits"
                    return Evidence(False, missing, examined, note)
                if missing < shortest:
                    shortest = missing
                    note = f"n={n}, {budget.total_bits} bits: {pair[0]} and {pair[1]} share one transcript"
    return Evidence(True, shortest, examined, note)


@claim(
    "thm:lower.tight",
    "With L_eff d b >= log2(n!) every permutation can have its own transcript: the bound is met.",
    subject=at_bound,
    controls={
        "one bit below the bound: the pigeonhole pair is exhibited": lambda n, states, bits: Budget(
            n, 1, required_whole_bits(n) - 1, 1
        )
    },
    margin_means="fewest bits to spare at which all n! transcripts were distinct",
    instances=7,
    least=3,
)
def injective(budget_for: BudgetRule, instances: int, generator: Generator) -> Evidence:
    """Check that the rank gives each permutation a separate transcript. ``instances`` is the largest n."""
    examined, least = 0, math.inf
    for n in range(3, instances + 1):
        permutations = all_permutations(n)
        for states, bits in FACTORIZATIONS:
            budget = budget_for(n, states, bits)
            examined += len(permutations)
            transcripts = rank_transcript(permutations, budget, generator)
            assert int(transcripts.max()) < 1 << bits
            spare = budget.total_bits - required_bits(n)
            least = min(least, spare)
            pair = colliding_pair(permutations, transcripts)
            if pair is not None:
                note = f"n={n}, {budget.total_bits} bits for {required_bits(n):.2f}: {pair[0]} and {pair[1]} collide"
                return Evidence(False, spare, examined, note)
    sizes, slots, bits = [2, 3, 5, 8, 12, 20, 35, 60, 100, 180, 320, 560, 1000], 8, 8
    used = [min(slots, n) * construction_width(n, min(slots, n), bits) * bits for n in sizes]
    lines = (
        ("log2 n! (thm:lower)", list(map(required_bits, sizes))),
        (f"M d b of eq:upper, M={slots}, b={bits}", used),
    )
    title = "Bits that Two-Radius needs, and bits the construction uses"
    series = Series(title, sizes, lines, "identifiers n", "bits", "xy")
    return Evidence(True, least, examined, f"all n! transcripts distinct for n=3..{instances}", (series,))


# (n, states, bits): too many permutations to enumerate, few enough that a rank fits into 64 bits.
SAMPLED = tuple((n, states, bits) for n in (9, 12, 20) for states, bits in ((1, 1), (2, 1), (3, 2)))


@claim(
    "thm:lower.layers",
    "Beyond enumeration: below the bound, drawn permutations share the transcript of several layers.",
    subject=(LAYERED, within_search),
    controls={"premise removed: a budget that reaches the bound": (LAYERED, at_bound)},
    margin_means="fewest of 16,384 drawn permutations whose transcript was another's too",
    instances=3,
)
def sampled_collision(subject: Transcripts, instances: int, generator: Generator) -> Evidence:
    """Check that two of many drawn permutations share a transcript, for ``instances`` encoders of each kind."""
    encoders, budget_for = subject
    examined, fewest, note = 0, math.inf, ""
    for n, states, bits in SAMPLED:
        budget = budget_for(n, states, bits)
        permutations = random_permutations(DRAWN, n, generator).unique(dim=0)
        for encoder in encoders:
            for _ in range(instances if encoder is not rank_transcript else 1):
                examined += 1
                transcripts = encoder(permutations, budget, generator)
                shared = len(transcripts) - len(transcripts.unique(dim=0))
                case = f"n={n}, {states} states, {budget.total_bits} of {required_bits(n):.1f} bits"
                if not shared:
                    return Evidence(False, 0.0, examined, f"{case}: {encoder.__name__} tells all drawn apart")
                if shared < fewest:
                    fewest, note = shared, f"{case}: {shared} of {len(permutations)} drawn share a transcript"
    return Evidence(True, float(fewest), examined, note)


LABELLED = tuple((n, alphabet) for n in (2, 3, 4, 5) for alphabet in (2, 3, 5, 8) if alphabet**n <= 5000)


@claim(
    "app:capacity.labels",
    "Independent labels of C kinds: with fewer than n log2 C bits two tables share a transcript.",
    subject=1,
    controls={"premise removed: as many bits as the bound asks for": 0},
    margin_means="fewest bits by which a budget fell short and a pair still had to collide",
    instances=4,
)
def label_collision(short: int, instances: int, generator: Generator) -> Evidence:
    """Check that with ``short`` bits less than ``ceil(n log2 C)``, two tables of independent labels share a transcript.

    The number of a table modulo the capacity has as many transcripts as any encoder. ``instances`` random encoders are
    checked too.
    """
    examined, least, note = 0, math.inf, ""
    for n, alphabet in LABELLED:
        tables, bits = all_tables(n, alphabet), (alphabet**n - 1).bit_length() - short
        missing = n * math.log2(alphabet) - bits
        transcripts = [(tables * alphabet ** torch.arange(n)).sum(dim=1) % (1 << bits)]
        transcripts += [torch.randint(1 << bits, (len(tables),), generator=generator) for _ in range(instances)]
        for transcript in transcripts:
            examined += 1
            pair = colliding_pair(tables, transcript.unsqueeze(1))
            if pair is None:
                return Evidence(False, missing, examined, f"n={n}, C={alphabet}: {bits} bits tell all tables apart")
            if missing < least:
                least = missing
                note = f"n={n}, C={alphabet}, {bits} bits: {pair[0]} and {pair[1]} share one transcript"
    return Evidence(True, least, examined, note)
