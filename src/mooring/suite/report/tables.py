"""Estimates as the text of a table's cells."""

from __future__ import annotations

from mooring.suite.report.stats import Estimate
from mooring.table import ABSENT, Column, Table

__all__ = ["ABSENT", "Column", "Table", "percent", "plain", "show"]


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
