"""Tables of the speed records, shown as they were measured."""

from __future__ import annotations

import math
from typing import Any

from mooring.suite.report.records import Record, Records
from mooring.suite.report.tables import ABSENT, Column, Table


def measurements(records: Records) -> list[Table]:
    """One table for each bench record: its rows are objects whose fields become the columns."""
    return [_table(record) for record in records.kind("bench")]


def _table(record: Record) -> Table:
    rows = [part.data for part in record.parts("rows")]
    fields = list(dict.fromkeys(field for row in rows for field in row))
    words = {field for field in fields if any(isinstance(row.get(field), str) for row in rows)}
    columns = tuple(Column(field.replace("_", " ").capitalize(), left=field in words) for field in fields)
    name = str(record.find("name") or record.path.stem)
    title = str(record.find("title") or name)
    machine = record.find("machine")
    notes = (f"Measured on {machine}.",) if machine else ()
    cells = tuple(tuple(_text(record, field, row.get(field)) for field in fields) for row in rows)
    return Table(f"bench-{name}", title, columns, cells, notes)


def _text(record: Record, field: str, value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
        raise record.error(f"field 'rows.{field}' holds {value!r:.80}, expected a number or a text.")
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
