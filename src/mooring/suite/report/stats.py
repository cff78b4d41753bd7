"""Mean and 95 % interval over seeds, the interval of a paired difference, and both as the text of a cell.

Runs are few (three to five seeds), so the interval is Student's: mean ± t(0.975, n - 1) * s / sqrt(n). The quantile is
computed here, because scipy would be a heavy dependency for one number; the tests compare it with scipy's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.table import ABSENT


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` seeds; `half_width` is half the 95 % interval, None where one seed gives no spread."""

    mean: float
    half_width: float | None
    count: int

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)

    def excludes_zero(self) -> bool:
        """Whether an interval exists and lies on one side of zero."""
        return self.half_width is not None and (self.low > 0 or self.high < 0)


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean and t-interval of independent values.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half_width=2.484137..., count=3)
    >>> estimate([4.0]).half_width is None
    True
    """
    if not values:
        raise ValueError("estimate: no values. Give at least one seed.")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    quantile = t_quantile(0.5 + confidence / 2, len(values) - 1)
    return Estimate(mean, quantile * math.sqrt(variance / len(values)), len(values))


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    """Interval of first - second over the seeds both have; pairing removes what the seed does to both alike.

    >>> paired_difference({0: 3.0, 1: 5.0}, {0: 1.0, 1: 3.0, 2: 9.0})
    Estimate(mean=2.0, half_width=0.0, count=2)
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise ValueError("paired_difference: the two models share no seed. Run both with the same seeds.")
    return estimate([first[seed] - second[seed] for seed in shared])


def show(value: Estimate | None, scale: float = 1.0, digits: int = 3, sign: bool = False) -> str:
    """An estimate as text; no interval is shown for one seed.

    >>> show(Estimate(0.98765, 0.0123, 5), scale=100, digits=1)
    '98.8 ± 1.2'
    >>> show(Estimate(0.283, None, 1), scale=100, digits=1)
    '28.3'
    """
    if value is None:
        return ABSENT
    text = f"{scale * value.mean:{'+' if sign else ''}.{digits}f}"
    return text if value.half_width is None else f"{text} ± {scale * value.half_width:.{digits}f}"


def percent(value: Estimate | None) -> str:
    """A fraction as per cent with one decimal."""
    return show(value, scale=100, digits=1)


def plain(value: float | None, digits: int = 3) -> str:
    """A published number, or a dash where there is none."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def t_quantile(probability: float, freedom: int) -> float:
    """The value Student's t with `freedom` degrees stays below with this probability (above one half).

    >>> round(t_quantile(0.975, 4), 4)
    2.7764
    """
    if not 0.5 <= probability < 1:
        raise ValueError(f"t_quantile: probability {probability}, expected at least 0.5 and below 1.")
    if freedom < 1:
        raise ValueError(f"t_quantile: {freedom} degrees of freedom, expected at least 1.")
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _t_below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_below(value: float, freedom: int) -> float:
    # The distribution function for whole degrees of freedom is a finite sum (Abramowitz and Stegun 26.7.3, 26.7.4).
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2:
        term = cosine
        total = term if freedom > 1 else 0.0
        for k in range(3, freedom, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = 2 / math.pi * (angle + sine * total)
    else:
        term = total = 1.0
        for k in range(2, freedom, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = sine * total
    return 0.5 + inside / 2
