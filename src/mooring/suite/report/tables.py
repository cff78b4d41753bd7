"""Tables that belong to no single task: every module side by side, claims, audit cards, speed, what was tried."""

from __future__ import annotations

import math
import re
from typing import Any

from mooring.suite.records import COMMANDS, Record, Records
from mooring.suite.report.boards import CENSUS, LEADERBOARD, UNRANKED, at_best_rates
from mooring.suite.report.groups import Group, group, percent, show, title
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

# The module that others are compared with, and the bench records of their costs and of the compiled kernels.
REFERENCE, COSTS, KERNELS = "anchored", "zoo", "kernels"
VERDICTS = {"replication": "Counts", "addressability": "Addressable", "batch_mates": "Batch mates"}
# How cards of the zoo are named; they have a table of their own.
ZOO = "zoo."
# Measurements whose verdict is a phrase of numbers and needs a wide column.
PHRASES = ("numeric_range", "dtypes", "cost_growth")
# Fields of a soak record: what was tried, how often, and each thing that must not happen, with its count.
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
    (
        "Triton kernels, interpreted",
        ("kernels", "inputs"),
        (("differs from the float64 oracle", ("kernels", "wrong")),),
    ),
    ("kinds of broken records", ("reports", "kinds"), (("traceback", ("reports", "tracebacks")),)),
)


@table("leaderboard", task=LEADERBOARD)
def leaderboard(records: Records, preset: str) -> Rows | None:
    """Modules by Both, best first, with motif errors and audit verdicts where those records exist."""
    if preset in UNRANKED:
        return None
    counted = at_best_rates(group(records.runs(LEADERBOARD, preset)), ("metrics", "best", "both"), 1)
    census = at_best_rates(group(records.runs(CENSUS, preset)), ("metrics", "best", "log_mae"), -1)
    cards = _cards(records, zoo=True)
    verdicts = [name for name in VERDICTS if any(name in card for card in cards.values())]
    rows = []
    for item in sorted(counted.values(), key=lambda item: -item.estimate("metrics", "best", "both").mean):
        card = cards.get(item.model, {})
        rows.append(
            (
                title(item.model, item.first),
                *(percent(item.estimate("metrics", "best", name)) for name in ("label", "count", "both")),
                *(_error(census.get(item.model), split) for split in ("iid", "jittered") if census),
                *(_verdict(card[name]) if name in card else ABSENT for name in verdicts),
                str(len(item.runs)),
            )
        )
    columns = (
        Column("Module", left=True),
        *(Column(name, group="two-radius") for name in ("Label", "Count", "Both")),
        *(Column(name, group="motif log-MAE") for name in ("IID", "Jittered") if census),
        *(Column(VERDICTS[name], group="audit", left=True) for name in verdicts),
        Column("Seeds"),
    )
    return Rows(columns, rows)


@table("leaderboard-costs", task=LEADERBOARD)
def costs(records: Records, preset: str) -> Rows | None:
    """What the modules cost: parameters, and time and memory of a training pass over one graph, against anchored."""
    bench = next((record for record in records.kind("bench") if record.find("name") == COSTS), None)
    if bench is None or preset in UNRANKED:
        return None
    measured = {(row.text("shape"), row.text("contestant")): row for row in bench.parts("rows")}
    shapes = list(dict.fromkeys(shape for shape, _ in measured))
    if not all(re.fullmatch(r"\d{1,9}x\d{1,9}", shape) for shape in shapes):
        raise bench.error(f"field 'rows.shape' is one of {shapes!r:.80}, expected graphs x nodes as in 1x1000.")
    runs = at_best_rates(group(records.runs(LEADERBOARD, preset)), ("metrics", "best", "both"), 1)
    rows = []
    for name in dict.fromkeys(name for _, name in measured if name.startswith(ZOO)):
        model = name.removeprefix(ZOO)
        item = runs.get(model)
        times = [_ratio(measured, shape, name) for shape in shapes]
        extra = [_found(measured.get((shape, name)), "extra_memory") for shape in shapes]
        rows.append(
            (
                title(model, item.first if item else None),
                *(ABSENT if time is None else f"{time:.2f}" for time in times),
                *(ABSENT if memory is None else f"{memory:.2f}" for memory in extra),
                ABSENT if item is None else f"{item.first.whole('parameters', 'memory'):,}",
                ABSENT if item is None else f"{item.first.number('config', 'learning_rate'):g}",
            )
        )
    sizes = [f"{int(shape.partition('x')[2]):,}" for shape in shapes]
    columns = (
        Column("Module", left=True),
        *(Column(size, group="time at n") for size in sizes),
        *(Column(size, group="memory at n") for size in sizes),
        Column("Parameters"),
        Column("Rate"),
    )
    return Rows(columns, rows, machine=bench.find("machine"))


@table("verify", record="verify")
def checks(records: Records) -> Rows:
    """One row per label: what is claimed, whether it held, by what margin, and whether the control was caught."""
    rows = []
    alarms = set()
    for place, claim in enumerate(claims(records)):
        passed, caught = claim.flag("passed"), claim.flag("control_failed")
        margin = claim.find("margin")
        rows.append(
            (
                claim.text("label"),
                claim.text("statement"),
                "yes" if passed else "NO",
                f"{claim.whole('instances'):,}",
                ABSENT if margin is None else f"{claim.number('margin'):.3g}",
                claim.text("margin_means"),
                claim.text("control"),
                "yes" if caught else "NO",
            )
        )
        alarms |= {(place, column) for column, fine in ((2, passed), (7, caught)) if not fine}
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
    return Rows(columns, rows, alarms=alarms)


def claims(records: Records) -> list[Record]:
    """Every claim of every verify record, in the order it was checked."""
    return [claim for record in records.kind("verify") for claim in record.parts("claims")]


@table("audit", record="audit")
def audit(records: Records) -> Rows:
    """The verdict of every measurement on every module, in a word or two; a broken invariant is an alarm."""
    return _matrix(_cards(records, zoo=False), phrases=False)


@table("audit-ranges", record="audit")
def audit_ranges(records: Records) -> Rows | None:
    """Numeric range, precision by dtype and growth of cost, whose verdicts are whole phrases."""
    found = _matrix(_cards(records, zoo=False), phrases=True)
    return found if len(found.columns) > 1 else None


@table("audit-zoo", record="audit")
def audit_zoo(records: Records) -> Rows | None:
    """The verdicts on the modules of the zoo."""
    cards = _cards(records, zoo=True)
    return _matrix(cards, phrases=False) if cards else None


def bench_names(records: Records) -> list[dict[str, str]]:
    """The option that chooses one of the bench records, for each of them."""
    return [{"name": _bench_name(record)} for record in records.kind("bench")]


def bench_record(records: Records, name: str) -> Record:
    """The bench record of this name."""
    for record in records.kind("bench"):
        if _bench_name(record) == name:
            return record
    raise ValueError(f"table 'bench': no bench record named '{name}'. Write it with `{COMMANDS['bench']}`.")


@table("bench", record="bench", each=bench_names)
def bench(records: Records, name: str) -> Rows:
    """One bench record as it was measured: the fields of its rows become the columns."""
    record = bench_record(records, name)
    rows = [part.data for part in record.parts("rows")]
    fields = list(dict.fromkeys(field for row in rows for field in row))
    words = {field for field in fields if any(isinstance(row.get(field), str) for row in rows)}
    # Names of contestants keep their own capitals.
    columns = [Column(field[:1].upper() + field[1:].replace("_", " "), left=field in words) for field in fields]
    machine = record.find("machine")
    return Rows(
        columns,
        [tuple(_text(record, field, row.get(field)) for field in fields) for row in rows],
        [f"Measured on {machine}."] if machine else [],
        title=record.find("title") or name,
    )


@table("kernels", record="bench")
def kernels(records: Records) -> Rows | None:
    """One row per precision and kernel: how often it was compiled, for which targets, and the most it needs."""
    found = next((record for record in records.kind("bench") if record.find("name") == KERNELS), None)
    if found is None:
        return None
    parts: dict[tuple[str, str], list[Record]] = {}
    for row in found.parts("rows"):
        parts.setdefault((row.text("precision"), row.text("kernel")), []).append(row)
    rows = []
    for (precision, kernel), compiled in parts.items():
        spilled = [row.whole("spilled") for row in compiled]
        rows.append(
            (
                precision,
                kernel,
                ", ".join(dict.fromkeys(row.text("target") for row in compiled)),
                str(len(compiled)),
                f"{max(row.whole('registers') for row in compiled)}",
                f"{max(row.whole('shared') for row in compiled):,}",
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
    return Rows(columns, rows)


@table("soak", record="soak")
def soak(records: Records) -> Rows:
    """One row for each thing that must not happen: how often it was tried, and how often it happened."""
    record = records.kind("soak")[-1]
    rows: list[tuple[str, ...]] = []
    alarms = set()
    for tried, number, faults in TRIED:
        if record.find("counts", *number) is None:  # a part that older records lack
            continue
        for fault, count in faults:
            happened = record.whole("counts", *count)
            if happened:
                alarms.add((len(rows), 3))
            rows.append((tried, f"{record.whole('counts', *number):,}", fault, f"{happened:,}"))
    columns = (Column("Tried", left=True), Column("times"), Column("Fault", left=True), Column("found"))
    minutes = record.number("seconds") / 60
    return Rows(columns, rows, alarms=alarms, seed=record.whole("seed"), minutes=f"{minutes:,.0f}")


@table("mutation", record="mutation")
def mutation(records: Records) -> Rows:
    """How many small faults the tests notice, of those that change something: at first, and with later tests."""
    record = records.kind("mutation")[0]
    survivors, equivalent = record.parts("survivors"), record.parts("equivalent")
    killed = record.whole("killed")
    first = record.whole("killed_at_first") if record.find("killed_at_first") is not None else killed
    real = killed + len(survivors)
    columns = (
        Column("Faults planted"),
        Column("change nothing"),
        Column("noticed at first"),
        Column("noticed now"),
        Column("left"),
    )
    row = (
        f"{record.whole('sample'):,}",
        str(len(equivalent)),
        f"{first} ({100 * first / real:.1f} %)",
        f"{killed} ({100 * killed / real:.1f} %)",
        str(len(survivors)),
    )
    return Rows(columns, [row], seed=record.whole("seed"))


def _cards(records: Records, *, zoo: bool) -> dict[str, dict[str, Record]]:
    """The findings of each card by name, of the modules of the zoo or of the others."""
    return {
        card.text("module").removeprefix(ZOO): {part.name("name"): part for part in card.parts("findings")}
        for card in records.kind("audit")
        if card.text("module").startswith(ZOO) == zoo
    }


def _matrix(cards: dict[str, dict[str, Record]], *, phrases: bool) -> Rows:
    """Modules down, measurements across."""
    names = dict.fromkeys(name for card in cards.values() for name in card)
    shown = [name for name in names if (name in PHRASES) == phrases]
    rows = []
    alarms = set()
    for place, (module, card) in enumerate(cards.items()):
        cells = []
        for column, measurement in enumerate(shown, start=1):
            if measurement not in card:
                cells.append(ABSENT)
                continue
            verdict = card[measurement].text("verdict")
            # What follows the colon or bracket explains the verdict; the card has room for it, a matrix does not.
            cells.append(verdict if phrases else re.split(r"[:;]| \(", verdict)[0])
            if card[measurement].find("broken"):
                alarms.add((place, column))
        rows.append((module.rsplit(":", 1)[-1], *cells))
    titles = [measurement.replace("_", " ").capitalize() for measurement in shown]
    columns = (Column("Module", left=True), *(Column(text, left=True, wide=phrases) for text in titles))
    return Rows(columns, rows, alarms=alarms)


def _verdict(finding: Record) -> str:
    """The verdict in a word or two: what follows a colon or a bracket explains it, and a number speaks for itself."""
    short = re.split(r":| \(", finding.text("verdict"))[0]
    first = short.partition(" ")[0]
    return first if first.isdigit() else short


def _ratio(measured: dict[tuple[str, str], Record], shape: str, name: str) -> float | None:
    ours, theirs = (_found(measured.get((shape, who)), "training_over_floor") for who in (name, ZOO + REFERENCE))
    return None if ours is None or not theirs else ours / theirs


def _found(row: Record | None, field: str) -> float | None:
    return None if row is None or row.find(field) is None else row.number(field)


def _error(item: Group | None, split: str) -> str:
    if item is None or not item.has("metrics", "final", f"{split}/log_mae"):
        return ABSENT
    return show(item.estimate("metrics", "final", f"{split}/log_mae"))


def _bench_name(record: Record) -> str:
    return str(record.find("name") or record.path.stem)


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
