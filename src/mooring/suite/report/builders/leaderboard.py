"""Every module in one table: what it recovers, what it counts, what it costs."""

from __future__ import annotations

import re

from mooring.suite.report import paper
from mooring.suite.report.builders.audit import ZOO, findings
from mooring.suite.report.groups import Group, group
from mooring.suite.report.records import Record, Records
from mooring.suite.report.tables import ABSENT, Column, Table, percent, show

TASK, CENSUS = "two-radius-leaderboard", "motifs-leaderboard"
# The module that others are compared with, and the bench record that holds their costs.
REFERENCE, COSTS = "anchored", "zoo"
# The preset of a sweep, which is drawn but not ranked.
WIDTH = "width"
VERDICTS = {"replication": "Counts", "addressability": "Addressable", "batch_mates": "Batch mates"}


def leaderboard(records: Records, preset: str) -> Table:
    """Modules by Both, best first, with motif errors and audit verdicts where those records exist."""
    counted = _at_best_rates(group(records.runs(TASK, preset)), ("metrics", "best", "both"), 1)
    census = _at_best_rates(group(records.runs(CENSUS, preset)), ("metrics", "best", "log_mae"), -1)
    cards = {card.text("module").removeprefix(ZOO): findings(card) for card in records.kind("audit") if _of_zoo(card)}
    verdicts = [name for name in VERDICTS if any(name in card for card in cards.values())]
    rows = []
    for item in sorted(counted.values(), key=lambda item: -item.estimate("metrics", "best", "both").mean):
        card = cards.get(item.model, {})
        rows.append(
            (
                paper.title(item.model),
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
    notes = (
        "Sorted by Both. Accuracies in %, mean ± 95 % interval over seeds (the last column counts those of "
        "Two-Radius). Each module has, for each task, the learning rate that did better on validation graphs at the "
        "first seed.",
    )
    return Table("leaderboard", f"Every module, preset {preset}", columns, tuple(rows), notes)


def costs(records: Records, preset: str) -> Table | None:
    """What the modules cost: parameters, and time and memory of a training pass over one graph, against anchored."""
    bench = next((record for record in records.kind("bench") if record.find("name") == COSTS), None)
    if bench is None:
        return None
    measured = {(row.text("shape"), row.text("contestant")): row for row in bench.parts("rows")}
    shapes = list(dict.fromkeys(shape for shape, _ in measured))
    if not all(re.fullmatch(r"\d{1,9}x\d{1,9}", shape) for shape in shapes):
        raise bench.error(f"field 'rows.shape' is one of {shapes!r:.80}, expected graphs x nodes as in 1x1000.")
    runs = _at_best_rates(group(records.runs(TASK, preset)), ("metrics", "best", "both"), 1)
    rows = []
    for name in dict.fromkeys(name for _, name in measured if name.startswith(ZOO)):
        model = name.removeprefix(ZOO)
        item = runs.get(model)
        times = [_ratio(measured, shape, name) for shape in shapes]
        extra = [_found(measured.get((shape, name)), "extra_memory") for shape in shapes]
        rows.append(
            (
                paper.title(model),
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
    notes = (
        "Time of a forward and backward pass over one graph as a multiple of the anchored module's in the same run, "
        "and its extra memory over the size of input, output and input gradient. Both are of modules as built by "
        "default; parameters and learning rate are those of the leaderboard, where budgets are matched.",
        f"Measured on {bench.find('machine')}.",
    )
    return Table("leaderboard-costs", "What every module costs", columns, tuple(rows), notes)


def _ratio(measured: dict[tuple[str, str], Record], shape: str, name: str) -> float | None:
    ours, theirs = (_found(measured.get((shape, who)), "training_over_floor") for who in (name, ZOO + REFERENCE))
    return None if ours is None or not theirs else ours / theirs


def _found(row: Record | None, field: str) -> float | None:
    return None if row is None or row.find(field) is None else row.number(field)


def _verdict(finding: Record) -> str:
    """The verdict in a word or two: what follows a colon or a bracket explains it, and a number speaks for itself."""
    short = re.split(r":| \(", finding.text("verdict"))[0]
    first = short.partition(" ")[0]
    return first if first.isdigit() else short


def _of_zoo(card: Record) -> bool:
    return card.text("module").startswith(ZOO)


def _at_best_rates(groups: list[Group], metric: tuple[str, ...], sign: int) -> dict[str, Group]:
    """For each model the configuration that was run at most seeds; of several, the best one."""
    chosen: dict[str, Group] = {}
    for item in sorted(groups, key=lambda item: (len(item.runs), sign * item.estimate(*metric).mean)):
        chosen[item.model] = item
    return chosen


def _error(item: Group | None, split: str) -> str:
    if item is None or not item.has("metrics", "final", f"{split}/log_mae"):
        return ABSENT
    return show(item.estimate("metrics", "final", f"{split}/log_mae"))
