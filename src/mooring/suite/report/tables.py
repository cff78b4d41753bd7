"""Tables of no single task: claims, audit cards, speed, long tests."""

from __future__ import annotations

import math
import re
from typing import Any

from mooring.suite.records import COMMANDS, Record, Records
from mooring.suite.report.exhibits import Body, table
from mooring.table import ABSENT, Column

# Begins the names of the cards of the zoo, which have a separate table.
ZOO = "zoo."
# Measurements whose verdict is a phrase of numbers and needs a wide column.
PHRASES = ("numeric_range", "dtypes", "cost_growth")
# The bench record of the compiled kernels.
KERNELS = "kernels"
# Rows of a soak record: what was tried and the field of its number, a thing that must not happen and that of its count.
TRIED = (
    ("generated inputs", "generated/inputs", "not finite", "generated/non_finite"),
    ("generated inputs", "generated/inputs", "order of nodes matters", "generated/order"),
    ("generated inputs", "generated/inputs", "another graph matters", "generated/leak"),
    ("generated inputs", "generated/inputs", "a node left out matters", "generated/left_out"),
    ("generated inputs", "generated/inputs", "differs from the float64 oracle", "generated/oracle"),
    ("generated inputs", "generated/inputs", "exception", "generated/raised"),
    ("derivatives in forward mode", "tried/tangents", "not finite, or not those of the backward", "generated/tangent"),
    ("batches changed in place", "tried/changed batch", "a plan made before changes too", "generated/plan"),
    ("exported programs", "tried/exported", "other than the module", "generated/exported"),
    ("strings for booleans", "tried/strings", "accepted", "generated/accepted"),
    ("kills of a training", "kills/kills", "another record", "kills/different"),
    ("Triton kernels, interpreted", "kernels/inputs", "differs from the float64 oracle", "kernels/wrong"),
    ("kinds of broken records", "reports/kinds", "traceback", "reports/tracebacks"),
)


@table(
    "verify",
    record="verify",
    title="The claims, checked",
    notes="Every check also runs on a control that breaks a premise, and must reject it.",
)
def verify(records: Records) -> Body:
    """Return one row per label: the claim, whether it held, by what margin, and whether the control was caught."""
    rows = [
        (
            claim.text("label"),
            claim.text("statement"),
            "yes" if claim.flag("passed") else "NO",
            f"{claim.whole('instances'):,}",
            ABSENT if claim.find("margin") is None else f"{claim.number('margin'):.3g}",
            claim.text("margin_means"),
            claim.text("control"),
            "yes" if claim.flag("control_failed") else "NO",
        )
        for claim in claims(records)
    ]
    alarms = [(place, column) for place, row in enumerate(rows) for column in (2, 7) if row[column] == "NO"]
    columns = (
        Column("Label", left=True),
        Column("Claim", left=True, wide=True),
        Column("Holds"),
        Column("Instances"),
        Column("Margin"),
        Column("which is the", left=True, wide=True),
        Column("Control", left=True, wide=True),
        Column("Caught"),
    )
    return Body(columns, rows, alarms=alarms)


def claims(records: Records) -> list[Record]:
    """Return every claim of every verify record, in the order of the checks."""
    return [claim for record in records.kind("verify") for claim in record.parts("claims")]


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


@table("audit-ranges", record="audit", title="Range, precision and cost")
def audit_ranges(records: Records) -> Body | None:
    """Return numeric range, precision by dtype and growth of cost, whose verdicts are whole phrases."""
    body = _matrix(cards(records, zoo=False), phrases=True)
    return body if len(body.columns) > 1 else None


@table("audit-zoo", record="audit", title="Audit cards of the zoo")
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
    names = dict.fromkeys(name for card in audited.values() for name in card if (name in PHRASES) == phrases)
    rows, alarms = [], set()
    for place, (module, card) in enumerate(audited.items()):
        verdicts = {name: finding.text("verdict") for name, finding in card.items()}
        # The explanation after a colon or bracket is on the card; the matrix has no room for it.
        short = {name: text if phrases else re.split(r"[:;]| \(", text)[0] for name, text in verdicts.items()}
        rows.append((module.rsplit(":", 1)[-1], *(short.get(name, ABSENT) for name in names)))
        alarms |= {(place, 1 + i) for i, name in enumerate(names) if name in card and card[name].find("broken")}
    titles = [name.replace("_", " ").capitalize() for name in names]
    columns = (Column("Module", left=True), *(Column(text, left=True, wide=phrases) for text in titles))
    return Body(columns, rows, alarms=alarms)


def verdict(finding: Record) -> str:
    """Return the verdict in a word or two, without the explanation after a colon or a bracket."""
    short = re.split(r":| \(", finding.text("verdict"))[0]
    first = short.partition(" ")[0]
    return first if first.isdigit() else short


def bench_names(records: Records) -> list[dict[str, str]]:
    """Return the option that chooses a bench record, for each of them."""
    return [{"name": _bench_name(record)} for record in records.kind("bench")]


def bench_record(records: Records, name: str) -> Record:
    """Return the bench record of this name."""
    for record in records.kind("bench"):
        if _bench_name(record) == name:
            return record
    raise ValueError(f"table 'bench': no bench record named '{name}'. Write it with `{COMMANDS['bench']}`.")


@table("bench", record="bench", each=bench_names, title="{title}")
def bench(records: Records, name: str, first: str = "all") -> Body:
    """Return the rows of a bench record, all or the first ones; their fields are the columns."""
    if first != "all" and not (first.isdecimal() and int(first)):
        raise ValueError(f"table 'bench': first is '{first}', expected a number of rows or 'all'.")
    record = bench_record(records, name)
    measured = [part.data for part in record.parts("rows")]
    rows = measured if first == "all" else measured[: int(first)]
    fields = list(dict.fromkeys(field for row in rows for field in row))
    words = {field for field in fields if any(isinstance(row.get(field), str) for row in rows)}
    # Names of contestants keep their own capitals.
    columns = [Column(field[:1].upper() + field[1:].replace("_", " "), left=field in words) for field in fields]
    machine = record.find("machine")
    notes = [f"Measured on {machine}."] if machine else []
    notes += [f"The first {len(rows)} of {len(measured)} rows of the record."] if len(rows) < len(measured) else []
    return Body(
        columns,
        [tuple(_text(record, field, row.get(field)) for field in fields) for row in rows],
        notes,
        title=record.find("title") or name,
    )


@table(
    "kernels",
    record="bench",
    title="The Triton kernels, compiled",
    notes="""
    Every kernel at widths of 16 to 128 and 8 or 16 slots. Registers are those of a thread; what does not fit is
    spilled.
    """,
)
def kernels(records: Records) -> Body | None:
    """Return one row per precision and kernel: how often it was compiled, for which targets, and the most it needs."""
    bench = next((record for record in records.kind("bench") if record.find("name") == KERNELS), None)
    if bench is None:
        return None
    parts: dict[tuple[str, str], list[Record]] = {}
    for row in bench.parts("rows"):
        parts.setdefault((row.text("precision"), row.text("kernel")), []).append(row)
    rows = []
    for names, compiled in parts.items():
        targets = ", ".join(dict.fromkeys(row.text("target") for row in compiled))
        registers, shared, spilled = (
            [row.whole(field) for row in compiled] for field in ("registers", "shared", "spilled")
        )
        rows.append(
            (
                *names,
                targets,
                f"{len(compiled)}",
                f"{max(registers)}",
                f"{max(shared):,}",
                f"{sum(number > 0 for number in spilled)}",
                f"{max(spilled)}",
            )
        )
    columns = (
        *(Column(name, left=True) for name in ("Precision", "Kernel", "Targets")),
        Column("Compilations"),
        Column("Registers", group="at most"),
        Column("Shared bytes", group="at most"),
        Column("Compilations", group="spilled"),
        Column("Bytes, at most", group="spilled"),
    )
    return Body(columns, rows)


@table(
    "soak",
    record="soak",
    title="Tried at length",
    notes="Seed {seed}, {minutes} minutes on one core.",
)
def soak(records: Records) -> Body:
    """Return one row per fault: how often it was tried, and how often it happened."""
    record = records.kind("soak")[-1]
    rows: list[tuple[str, ...]] = []
    alarms = set()
    for tried, number, fault, count in TRIED:
        if record.find("counts", *number.split("/")) is None:  # a part that older records lack
            continue
        times, happened = (record.whole("counts", *field.split("/")) for field in (number, count))
        if happened:
            alarms.add((len(rows), 3))
        rows.append((tried, f"{times:,}", fault, f"{happened:,}"))
    columns = (Column("Tried", left=True), Column("times"), Column("Fault", left=True), Column("found"))
    minutes = record.number("seconds") / 60
    return Body(columns, rows, alarms=alarms, seed=record.whole("seed"), minutes=f"{minutes:,.0f}")


@table(
    "mutation",
    record="mutation",
    title="Faults planted",
    notes="""
    Single changes of ops, nn, theory and the tasks' data, drawn with seed {seed}. Shares are of those that change
    something. At first: by the tests as they were; now: with those written for what they missed.
    """,
)
def mutation(records: Records) -> Body:
    """Return how many small faults the tests notice, of those that change something: at first, and with later tests."""
    record = records.kind("mutation")[0]
    survivors, equivalent = record.parts("survivors"), record.parts("equivalent")
    killed = record.whole("killed")
    first = record.whole("killed_at_first") if record.find("killed_at_first") is not None else killed
    real = killed + len(survivors)
    titles = ("Faults planted", "change nothing", "noticed at first", "noticed now", "left")
    row = (
        f"{record.whole('sample'):,}",
        str(len(equivalent)),
        *(f"{noticed} ({100 * noticed / real:.1f} %)" for noticed in (first, killed)),
        str(len(survivors)),
    )
    return Body(map(Column, titles), [row], seed=record.whole("seed"))


def _bench_name(record: Record) -> str:
    return str(record.find("name") or record.origin.stem)


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
