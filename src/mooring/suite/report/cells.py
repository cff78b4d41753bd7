"""Cells and options that tables of several tasks have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from mooring.suite.report.groups import Group, paired_difference, shares, show
from mooring.table import ABSENT, Column

Item = TypeVar("Item")
Rows = list[tuple[str, ...]]


def score(item: Group, *keys: str, scale: float = 1.0, digits: int = 3) -> str:
    """Return the mean of a field over the seeds, with its interval; a dash if some run lacks the field."""
    return show(item.estimate(*keys), scale, digits) if item.has(*keys) else ABSENT


def best(item: Group, metric: str) -> str:
    """Return a share at the selected epoch as per cent, see :func:`mooring.suite.report.groups.shares`."""
    return shares(item, "metrics", "best", metric)


def ahead(
    item: Group, reference: Group | None, *keys: str, scale: float = 1.0, digits: int = 3, falls: bool = False
) -> str:
    """Return how far a row is above another one, paired over seeds; a dash for the other row itself and without it.

    Args:
        item, reference: the two rows.
        keys: the field.
        scale, digits: as in :func:`show`.
        falls: return how far the row is below instead, as for an error.
    """
    if reference is None or item is reference:
        return ABSENT
    ours, theirs = ({seed: scale * value for seed, value in row.by_seed(*keys).items()} for row in (item, reference))
    if not ours.keys() & theirs.keys():
        return ABSENT
    gap = paired_difference(theirs, ours) if falls else paired_difference(ours, theirs)
    return show(gap, digits=digits, sign=True)


def named(wanted: str, there: Iterable[object], absent: str) -> list[str]:
    """Return the names in an option of a table: comma-separated, or those there are for ``all``.

    >>> named("all", [6, 12], "no run with sizes={}"), named("12", [6, 12], "no run with sizes={}")
    (['6', '12'], ['12'])
    >>> named("7", [6, 12], "no run with sizes={}")
    Traceback (most recent call last):
    ValueError: no run with sizes=7, expected some of 6, 12, or 'all'.
    """
    names = list(dict.fromkeys(map(str, there)))
    for name in [] if wanted == "all" else wanted.split(","):
        if name not in names:
            raise ValueError(f"{absent.format(name)}, expected some of {', '.join(names)}, or 'all'.")
    return names if wanted == "all" else wanted.split(",")


def fill(items: Iterable[Item], *columns: tuple[Column, Callable[[Item], str]]) -> tuple[list[Column], Rows]:
    """Return the columns and rows of a table with one row per item.

    Args:
        items: what the rows show.
        columns: each column with the function from an item to its cell.
    """
    return [column for column, _ in columns], [tuple(cell(item) for _, cell in columns) for item in items]


def seeds(item: Group) -> str:
    """Return the number of seeds, the last cell of most rows."""
    return str(len(item.runs))


def thousands(item: Group) -> str:
    """Return the number of all parameters in thousands."""
    return f"{item.first.whole('parameters', 'total') / 1000:.0f}"
