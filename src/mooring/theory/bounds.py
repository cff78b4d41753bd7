"""The paper's two capacity formulas as functions: what Two-Radius needs, and what the construction uses."""

from __future__ import annotations

import math


def required_bits(n: int) -> float:
    """``log2(n!)``, the right-hand side of the capacity bound.

    Paper: eq:capacity.

    Example:
        >>> round(required_bits(12), 2)
        28.84
    """
    return math.log2(math.factorial(n))


def required_whole_bits(n: int) -> int:
    """The fewest whole bits that number ``n!`` things, in exact integer arithmetic."""
    return (math.factorial(n) - 1).bit_length()


def required_width(n: int, states: int, bits: int) -> int:
    """The least width ``d`` with ``L_eff d b >= log2(n!)``.

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


def construction_width(n: int, slots: int, bits: int) -> int:
    """The width per slot that the addressable construction uses, with nothing left in its ``O(1)``.

    ``ceil(n/M) ceil(log2 n / b) + ceil(log2 M / b)``

    Paper: eq:upper.

    Example:
        >>> construction_width(n=12, slots=4, bits=8)
        4
    """
    return -(-n // slots) * label_digits(n, bits) + label_digits(slots, bits)


def label_digits(count: int, bits: int) -> int:
    """``ceil(log2(count) / b)``: coordinates of ``b`` bits that tell ``count`` labels apart."""
    return -(-(count - 1).bit_length() // bits)
