"""The audit cards side by side: modules down, measurements across."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.suite.report.records import Record, Records
from mooring.suite.report.tables import ABSENT, Column, Table

# Measurements whose verdict is a phrase of numbers and needs a wide column.
PHRASES = ("numeric_range", "dtypes", "cost_growth")
# How cards of the zoo are named; they have a table of their own.
ZOO = "zoo."


def findings(card: Record) -> dict[str, Record]:
    """The findings of one card by name."""
    return {part.name("name"): part for part in card.parts("findings")}


def cards(records: Records) -> Table:
    """The verdict of every measurement on every module, in a word or two; a broken invariant is an alarm."""
    notes = (
        "Marked cells are broken invariants: the module gives wrong or unstable answers there. The others are limits "
        "to be aware of.",
    )
    return _matrix(records, "audit", "Audit cards", False, notes)


def zoo(records: Records) -> Table | None:
    """The same for the modules of the zoo."""
    table = _matrix(records, "audit-zoo", "Audit cards of the zoo", False, (), zoo=True)
    return table if table.rows else None


def ranges(records: Records) -> Table | None:
    """Numeric range, precision by dtype and growth of cost, whose verdicts are whole phrases."""
    table = _matrix(records, "audit-ranges", "Range, precision and cost", True, ())
    return table if len(table.columns) > 1 else None


def _matrix(
    records: Records, name: str, title: str, phrases: bool, notes: tuple[str, ...], *, zoo: bool = False
) -> Table:
    found: Mapping[str, dict[str, Record]] = {
        card.text("module").removeprefix(ZOO): findings(card)
        for card in records.kind("audit")
        if card.text("module").startswith(ZOO) == zoo
    }
    names = dict.fromkeys(name for card in found.values() for name in card)
    shown = [name for name in names if (name in PHRASES) == phrases]
    rows = []
    alarms = set()
    for place, (module, card) in enumerate(found.items()):
        cells = []
        for column, measurement in enumerate(shown, start=1):
            if measurement not in card:
                cells.append(ABSENT)
                continue
            verdict = card[measurement].text("verdict")
            # What follows the colon or bracket explains the verdict; the card has room for it, a matrix has not.
            cells.append(verdict if phrases else re.split(r"[:;]| \(", verdict)[0])
            if card[measurement].find("broken"):
                alarms.add((place, column))
        rows.append((module.rsplit(":", 1)[-1], *cells))
    titles = [measurement.replace("_", " ").capitalize() for measurement in shown]
    columns = (Column("Module", left=True), *(Column(text, left=True, wide=phrases) for text in titles))
    return Table(name, title, columns, tuple(rows), notes, frozenset(alarms))
