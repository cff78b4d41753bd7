"""Table of what `make soak` tried and what went wrong."""

from __future__ import annotations

from mooring.suite.report.records import Record, Records
from mooring.suite.report.tables import Column, Table

# Fields of a soak record: what was tried, how often, and each thing that may not happen with its count.
TRIED = (
    (
        "generated inputs",
        ("generated", "inputs"),
        (
            ("not finite", ("generated", "non_finite")),
            ("order of nodes matters", ("generated", "order")),
            ("another graph matters", ("generated", "leak")),
            ("a node left out matters", ("generated", "left_out")),
            ("differs from the float64 oracle", ("generated", "oracle")),
            ("exception", ("generated", "raised")),
        ),
    ),
    ("kills of a training", ("kills", "kills"), (("another record", ("kills", "different")),)),
    ("kinds of broken records", ("reports", "kinds"), (("traceback", ("reports", "tracebacks")),)),
)


def counts(records: Records) -> Table:
    """One row for each thing that may not happen: how often it was tried, and how often it happened."""
    found: list[Record] = records.kind("soak")
    if not found:
        raise ValueError("table 'soak': no soak record. Write one with `make soak`.")
    record = found[-1]
    rows: list[tuple[str, ...]] = []
    alarms = set()
    for tried, number, faults in TRIED:
        for fault, count in faults:
            happened = record.whole("counts", *count)
            if happened:
                alarms.add((len(rows), 3))
            rows.append((tried, f"{record.whole('counts', *number):,}", fault, f"{happened:,}"))
    columns = (Column("Tried", left=True), Column("times"), Column("Fault", left=True), Column("found"))
    notes = (f"Seed {record.whole('seed')}, {record.number('seconds') / 60:,.0f} minutes on one core.",)
    return Table("soak", "Tried at length", columns, tuple(rows), notes, frozenset(alarms))
