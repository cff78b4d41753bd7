"""The capacity bound: the bits of a transcript that serves every permutation, ``L_eff d b >= log2(n!)``.

Checks thm:lower (below the bound two permutations share a transcript) and thm:lower.tight (at the bound all transcripts
can differ), both by enumeration; thm:lower.layers, with too many permutations to enumerate; app:capacity.labels, the
same bound for independent labels. The capacity formulas eq:capacity and eq:upper are functions of this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mooring.theory.claim import Evidence, Series
from mooring.theory.instances import all_permutations, all_tables, random_permutations, rank


def required_bits(n: int) -> float:
    """Return ``log2(n!)``, the right-hand side of the capacity bound.

    Paper: eq:capacity.

    Example:
        >>> round(required_bits(12), 2)
        28.84
    """
    return math.log2(math.factorial(n))


def required_whole_bits(n: int) -> int:
    """Return ``ceil(log2(n!))``, in exact integer arithmetic."""
    return (math.factorial(n) - 1).bit_length()


def required_width(n: int, states: int, bits: int) -> int:
    """Return the least width ``d`` with ``L_eff d b >= log2(n!)``.

    Paper: thm:lower.

    Args:
        n: identifiers.
        states: the effective factorization degree ``L_eff``.
        bits: bits ``b`` of one coordinate.

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

    This is eq:upper with its ``O(1)`` equal to 0. C is ``alphabet``, the number of labels; n if None.

    Paper: eq:upper, app:capacity.

    Example:
        >>> construction_width(n=12, slots=4, bits=8), construction_width(n=12, slots=4, bits=8, alphabet=1000)
        (4, 7)
    """
    return -(-n // slots) * label_digits(alphabet or n, bits) + label_digits(slots, bits)


def label_digits(count: int, bits: int) -> int:
    """Return ``ceil(log2(count) / b)``, the number of ``b``-bit coordinates that distinguish ``count`` labels."""
    return -(-(count - 1).bit_length() // bits)


def colliding_pair(transcripts: Tensor) -> tuple[int, int] | None:
    """Return the indices of the first two equal rows, or None if all rows differ."""
    unique, inverse = torch.unique(transcripts, dim=0, return_inverse=True)
    if len(unique) == len(transcripts):
        return None
    order = inverse.argsort(stable=True)
    repeated = (inverse[order[1:]] == inverse[order[:-1]]).nonzero()[0]
    return int(order[repeated]), int(order[repeated + 1])


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


Encoder = Callable[[Tensor, Budget, torch.Generator], Tensor]


def rank_transcript(permutations: Tensor, budget: Budget, generator: torch.Generator) -> Tensor:
    """Encode the lexicographic rank modulo the capacity; no encoder has more distinct transcripts."""
    del generator
    return budget.digits(rank(permutations))


def hashed_transcript(permutations: Tensor, budget: Budget, generator: torch.Generator) -> Tensor:
    """Draw an independent random transcript for every permutation, which gives an arbitrary function."""
    del permutations
    count = math.factorial(budget.n)
    return torch.randint(1 << budget.bits, (count, budget.states * budget.width), generator=generator)


def network_transcript(permutations: Tensor, budget: Budget, generator: torch.Generator) -> Tensor:
    """Encode with a mean-pooled two-layer network of the sources, its state rounded to the budget's coordinates."""
    n, hidden = budget.n, 17
    embedding = torch.randn(n, n, hidden, generator=generator, dtype=torch.float64)
    pooled = embedding[torch.arange(n), permutations].tanh().mean(dim=1)
    out = torch.randn(hidden, budget.states * budget.width, generator=generator, dtype=torch.float64)
    levels = 1 << budget.bits
    return ((pooled @ out).sigmoid() * levels).floor().clamp(max=levels - 1).long()


ENCODERS: tuple[Encoder, ...] = (rank_transcript, hashed_transcript, network_transcript)
BudgetRule = Callable[[int, int, int], Budget]
"""Maps (n, states, bits) to a transcript's budget."""

FACTORIZATIONS: tuple[tuple[int, int], ...] = ((1, 1), (1, 3), (2, 1), (3, 2), (5, 1))


def below_bound(n: int, states: int, bits: int) -> Budget:
    return Budget(n, states, required_width(n, states, bits) - 1, bits)


def at_bound(n: int, states: int, bits: int) -> Budget:
    return Budget(n, states, required_width(n, states, bits), bits)


@dataclass(frozen=True)
class Transcripts:
    """Encoders, and the rule that sets their budget."""

    encoders: Sequence[Encoder]
    budget: BudgetRule


def check_collision(subject: Transcripts, instances: int, generator: torch.Generator) -> Evidence:
    """Check that below the bound every encoder maps two permutations to one transcript. ``instances`` is the largest
    n.
    """
    examined, shortest, note = 0, math.inf, ""
    for n in range(3, instances + 1):
        permutations = all_permutations(n)
        for states, bits in FACTORIZATIONS:
            budget = subject.budget(n, states, bits)
            if budget.width == 0:
                continue
            for encoder in subject.encoders:
                examined += 1
                pair = colliding_pair(encoder(permutations, budget, generator))
                if pair is None:
                    note = f"n={n}: {encoder.__name__} tells all {math.factorial(n)} apart in {budget.total_bits} bits"
                    return Evidence(False, required_bits(n) - budget.total_bits, examined, note)
                first, second = (permutations[row].tolist() for row in pair)
                if required_bits(n) - budget.total_bits < shortest:
                    shortest = required_bits(n) - budget.total_bits
                    note = f"n={n}, {budget.total_bits} bits: {first} and {second} share one transcript"
    return Evidence(True, shortest, examined, note)


def check_injective(budget_for: BudgetRule, instances: int, generator: torch.Generator) -> Evidence:
    """Check that at the bound the rank gives each permutation a separate transcript. ``instances`` is the largest n."""
    examined, spare = 0, math.inf
    for n in range(3, instances + 1):
        permutations = all_permutations(n)
        for states, bits in FACTORIZATIONS:
            budget = budget_for(n, states, bits)
            examined += len(permutations)
            transcripts = rank_transcript(permutations, budget, generator)
            assert int(transcripts.max()) < 1 << bits
            spare = min(spare, budget.total_bits - required_bits(n))
            pair = colliding_pair(transcripts)
            if pair is not None:
                first, second = (permutations[row].tolist() for row in pair)
                note = f"n={n}, {budget.total_bits} bits for {required_bits(n):.2f}: {first} and {second} collide"
                return Evidence(False, budget.total_bits - required_bits(n), examined, note)
    return Evidence(True, spare, examined, f"all n! transcripts distinct for n=3..{instances}", (_bits_series(),))


def layered_transcript(permutations: Tensor, budget: Budget, generator: torch.Generator) -> Tensor:
    """Encode with several global layers: sources see the previous layer's state; the transcript is all states."""
    n, hidden, levels = budget.n, 9, 1 << budget.bits
    nodes = torch.randn(n, n, hidden, generator=generator, dtype=torch.float64)[torch.arange(n), permutations]
    state = torch.zeros(len(permutations), budget.width, dtype=torch.float64)
    states = []
    for _ in range(budget.states):
        back = torch.randn(budget.width, hidden, generator=generator, dtype=torch.float64)
        out = torch.randn(hidden, budget.width, generator=generator, dtype=torch.float64)
        nodes = (nodes + (state @ back).unsqueeze(1)).tanh()
        # Scaled to the standard deviation of the sum, so that all levels are used.
        written = (nodes.sum(dim=1) @ out / n**0.5).sigmoid()
        states.append((written * levels).floor().clamp(max=levels - 1).long())
        state = states[-1].double() / levels - 0.5
    return torch.cat(states, dim=1)


# (n, states, bits): too many permutations to enumerate, few enough that a rank fits into 64 bits.
SAMPLED = tuple((n, states, bits) for n in (9, 12, 20) for states, bits in ((1, 1), (2, 1), (3, 2)))
# Budgets in which random draws find a pair: of 2^14 uniform transcripts of 22 bits, 32 pairs agree on average.
SEARCHED_BITS, DRAWN = 22, 1 << 14


def within_search(n: int, states: int, bits: int) -> Budget:
    """Return the largest budget below the bound in which random draws find a shared transcript."""
    most = min(SEARCHED_BITS, required_whole_bits(n) - 1)
    return Budget(n, states, most // (states * bits), bits)


def check_sampled(subject: Transcripts, instances: int, generator: torch.Generator) -> Evidence:
    """Check that two of many drawn permutations share a transcript. ``instances`` is the number of encoders of each
    kind.
    """
    examined, fewest, note = 0, math.inf, ""
    for n, states, bits in SAMPLED:
        budget = subject.budget(n, states, bits)
        permutations = random_permutations(DRAWN, n, generator).unique(dim=0)
        for encoder in subject.encoders:
            for _ in range(instances if encoder is not rank_transcript else 1):
                examined += 1
                transcripts = encoder(permutations, budget, generator)
                shared = len(transcripts) - len(transcripts.unique(dim=0))
                where = f"n={n}, {states} states, {budget.total_bits} of {required_bits(n):.1f} bits"
                if not shared:
                    return Evidence(False, 0.0, examined, f"{where}: {encoder.__name__} tells all drawn apart")
                if shared < fewest:
                    fewest, note = shared, f"{where}: {shared} of {len(permutations)} drawn share a transcript"
    return Evidence(True, float(fewest), examined, note)


LABELLED = tuple((n, alphabet) for n in (2, 3, 4, 5) for alphabet in (2, 3, 5, 8) if alphabet**n <= 5000)


def label_budget(n: int, alphabet: int, *, short: int) -> int:
    """Return ``ceil(n log2 C) - short`` bits, in exact integer arithmetic."""
    return (alphabet**n - 1).bit_length() - short


def check_labels(short: int, instances: int, generator: torch.Generator) -> Evidence:
    """Check that with ``short`` bits less than ``ceil(n log2 C)``, two tables of independent labels share a transcript.

    The number of a table modulo the capacity has as many transcripts as any encoder. ``instances`` random encoders are
    checked too.
    """
    examined, least, note = 0, math.inf, ""
    for n, alphabet in LABELLED:
        tables, bits = all_tables(n, alphabet), label_budget(n, alphabet, short=short)
        number = (tables * alphabet ** torch.arange(n)).sum(dim=1)
        encoded = [number % (1 << bits)]
        encoded += [torch.randint(1 << bits, (len(tables),), generator=generator) for _ in range(instances)]
        for transcript in encoded:
            examined += 1
            pair = colliding_pair(transcript.unsqueeze(1))
            missing = n * math.log2(alphabet) - bits
            if pair is None:
                return Evidence(False, missing, examined, f"n={n}, C={alphabet}: {bits} bits tell all tables apart")
            if missing < least:
                first, second = (tables[row].tolist() for row in pair)
                least, note = missing, f"n={n}, C={alphabet}, {bits} bits: {first} and {second} share one transcript"
    return Evidence(True, least, examined, note)


def _bits_series() -> Series:
    sizes = [2, 3, 5, 8, 12, 20, 35, 60, 100, 180, 320, 560, 1000]
    slots, bits = 8, 8
    used = [min(slots, n) * construction_width(n, min(slots, n), bits) * bits for n in sizes]
    return Series(
        title="Bits that Two-Radius needs, and bits the construction uses",
        x=sizes,
        lines=(
            ("log2 n! (thm:lower)", [required_bits(n) for n in sizes]),
            (f"M d b of eq:upper, M={slots}, b={bits}", used),
        ),
        xlabel="identifiers n",
        ylabel="bits",
        log="xy",
    )
