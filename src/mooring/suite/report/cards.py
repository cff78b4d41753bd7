"""Audit cards as tables: modules down, measurements across."""

from __future__ import annotations

import re

from mooring.suite.records import Record, Records
from mooring.suite.report.exhibits import Body, table
from mooring.table import ABSENT, Column

# Begins the names of the cards of the zoo, which have a separate table.
ZOO = "zoo."
# Measurements whose verdict is a phrase of numbers and needs a wide column.
PHRASES = ("numeric_range", "dtypes", "cost_growth")


@table(
    "audit",
    record="audit",
    title="Audit cards",
    notes="""
    Marked cells are broken invariants: the module gives wrong or unstable answers there. The others are limits to be
    aware of.
    """,
)
def audit(records: Records) -> Body:
    """Return the verdict of every measurement on every module, in a word or two; a broken invariant is an alarm."""
    return _matrix(cards(records, zoo=False), phrases=False)


@table(
    "audit-ranges",
    record="audit",
    title="Range, precision and cost",
)
def audit_ranges(records: Records) -> Body | None:
    """Return numeric range, precision by dtype and growth of cost, whose verdicts are whole phrases."""
    body = _matrix(cards(records, zoo=False), phrases=True)
    return body if len(body.columns) > 1 else None


@table(
    "audit-zoo",
    record="audit",
    title="Audit cards of the zoo",
)
def audit_zoo(records: Records) -> Body | None:
    """Return the verdicts on the modules of the zoo."""
    audited = cards(records, zoo=True)
    return _matrix(audited, phrases=False) if audited else None


def cards(records: Records, *, zoo: bool) -> dict[str, dict[str, Record]]:
    """Return the findings of each card by name, of the modules of the zoo or of the others."""
    return {
        card.text("module").removeprefix(ZOO): {part.name("name"): part for part in card.parts("findings")}
        for card in records.kind("audit")
        if card.text("module").startswith(ZOO) == zoo
    }


def _matrix(audited: dict[str, dict[str, Record]], *, phrases: bool) -> Body:
    """Return a table with modules down and measurements across."""
    names = dict.fromkeys(name for card in audited.values() for name in card)
    shown = [name for name in names if (name in PHRASES) == phrases]
    rows = []
    alarms = set()
    for place, (module, card) in enumerate(audited.items()):
        cells = []
        for column, measurement in enumerate(shown, start=1):
            if measurement not in card:
                cells.append(ABSENT)
                continue
            verdict = card[measurement].text("verdict")
            # The explanation after a colon or bracket is on the card; the matrix has no room for it.
            cells.append(verdict if phrases else re.split(r"[:;]| \(", verdict)[0])
            if card[measurement].find("broken"):
                alarms.add((place, column))
        rows.append((module.rsplit(":", 1)[-1], *cells))
    titles = [measurement.replace("_", " ").capitalize() for measurement in shown]
    columns = (Column("Module", left=True), *(Column(text, left=True, wide=phrases) for text in titles))
    return Body(columns, rows, alarms=alarms)


def verdict(finding: Record) -> str:
    """Return the verdict in a word or two, without the explanation after a colon or a bracket."""
    short = re.split(r":| \(", finding.text("verdict"))[0]
    first = short.partition(" ")[0]
    return first if first.isdigit() else short
