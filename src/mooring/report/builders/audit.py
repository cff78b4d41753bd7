"""The audit cards side by side: modules down, measurements across."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.report.records import Record, Records
from mooring.report.tables import ABSENT, Column, Table


def findings(card: Record) -> dict[str, Record]:
    """The findings of one card by name."""
    parts = [card.part(finding) for finding in card.items("findings")]
    return {part.text("name"): part for part in parts}


def cards(records: Records) -> Table:
    """The verdict of every measurement on every module; a broken invariant is an alarm."""
    found: Mapping[str, dict[str, Record]] = {card.text("module"): findings(card) for card in records.kind("audit")}
    names = list(dict.fromkeys(name for card in found.values() for name in card))
    rows = []
    alarms = set()
    for place, (module, card) in enumerate(found.items()):
        cells = []
        for column, name in enumerate(names, start=1):
            if name not in card:
                cells.append(ABSENT)
                continue
            # The part after the colon explains the verdict; the card itself has room for it, a matrix has not.
            cells.append(card[name].text("verdict").split(":")[0])
            if card[name].find("broken"):
                alarms.add((place, column))
        rows.append((module.rsplit(":", 1)[-1], *cells))
    columns = (Column("Module", left=True), *(Column(name.replace("_", " ").capitalize(), left=True) for name in names))
    notes = (
        "Marked cells are broken invariants: the module gives wrong or unstable answers there. The others are limits "
        "to know.",
    )
    return Table("audit", "Audit cards", columns, tuple(rows), notes, frozenset(alarms))
