"""Below the bound: the best average recovery that B bits allow, from above and from below.

The paper's bound asks for every permutation in full. Here a permutation of n labels is uniform, an encoder keeps B
bits of it, each target guesses, and recovery is the expected share of right guesses.

Converse. A decoder has at most ``2^B`` answer words. A fixed word agrees with a random permutation in t given places
with probability at most ``(n-t)!/n!``, so in t or more places with probability at most ``C(n,t) (n-t)!/n! = 1/t!``,
and in one place on average. Over ``2^B`` words the best agreement is therefore at most
``min(2^B, sum_t min(1, 2^B / t!))`` on average, which is n exactly when ``B >= log2 n!``: thm:lower is its end point.

Achievability. Draw the ``2^B`` words as independent random permutations: agreements are then independent numbers of
fixed points, and their expected maximum is ``sum_t 1 - (1 - P(F >= t))^(2^B)``. Some codebook is at least as good.

Paper: beyond it; rem:lower-scope and the first limitation of sec:discussion ask for it.
"""

from __future__ import annotations

import itertools
import math

from mooring.theory.bounds import required_bits


def recovery_ceiling(n: int, bits: float) -> float:
    """The most labels of a random permutation that any encoder of so many bits, with any decoder, recovers on average.

    Example:
        >>> recovery_ceiling(12, bits=0) == 1 / 12, recovery_ceiling(12, bits=29)
        (True, 1.0)
    """
    log_words = bits * math.log(2)
    agreement = sum(math.exp(min(0.0, log_words - math.lgamma(t + 1))) for t in range(1, n + 1))
    return min(agreement, math.exp(min(log_words, math.log(n)))) / n


def recovery_by_codebook(n: int, bits: float) -> float:
    """What the average random codebook of ``2^bits`` permutations recovers; with ``log2 n!`` bits, everything."""
    if bits >= required_bits(n):
        return 1.0
    agreement = 0.0
    for log_probability in _fixed_point_log_tail(n):
        # 1 - (1 - p)^N through logarithms, for p down to 1/n! and N up to n!.
        log_rate = math.log(-math.log1p(-math.exp(log_probability))) if log_probability > -30 else log_probability
        agreement -= math.expm1(-math.exp(min(bits * math.log(2) + log_rate, 700.0)))
    return agreement / n


def stored_identifiers(n: int, bits: float) -> int:
    """How many labels fit when a table names them one after another: the largest k with ``n!/(n-k)! <= 2^B``."""
    used = 0.0
    for k in range(n):
        used += math.log2(n - k)
        if used > bits + 1e-9:
            return k
    return n


def recovery_by_table(n: int, bits: float) -> float:
    """Store as many identifiers' labels as fit and guess the rest: k right, and one more on average by chance."""
    stored = stored_identifiers(n, bits)
    return min(n, stored + 1) / n


def label_recovery_ceiling(labels: int, bits_per_label: float) -> float:
    """The same ceiling for independent labels over an alphabet: one minus the distortion at that rate.

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


def _fixed_point_log_tail(n: int) -> list[float]:
    """``log P(F >= t)`` for t = 1..n, where F counts the fixed points of a random permutation; exact counts."""
    derangements = [1, 0]
    for size in range(2, n + 1):
        derangements.append((size - 1) * (derangements[-1] + derangements[-2]))
    exactly = [math.comb(n, fixed) * derangements[n - fixed] for fixed in range(n + 1)]
    at_least = list(itertools.accumulate(reversed(exactly)))[::-1]
    return [math.log(count) - math.log(math.factorial(n)) for count in at_least[1:]]
