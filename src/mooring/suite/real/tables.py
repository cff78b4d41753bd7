"""Tables of real graphs: every memory on every set, beside no memory and beside what is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.suite.real.published import PUBLISHED
from mooring.suite.records import Record, Records
from mooring.suite.report.claims import updates_of
from mooring.suite.report.groups import Estimate, Group, group, interval, listed, paired_difference, shares, show
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

TASKS = ("molecules", "peptides", "nodes")
# Name and scale of each metric, and whether more is better.
METRICS = {
    "roc_auc": ("ROC-AUC, %", 100.0, True),
    "average_precision": ("AP, %", 100.0, True),
    "rmse": ("RMSE", 1.0, False),
    "mae": ("MAE", 1.0, False),
}
REFERENCE = "none"
# The bench record of times, see benchmarks/updates.py.
UPDATES = "updates"
# What a search varies; a configuration that differs in anything else is a row of its own.
SEARCHED = ("learning_rate", "readout", "layer_dropout", "weight_decay")
# What a row shows in columns and not in its name.
SHOWN = (*SEARCHED, "dataset", "epochs", "steps_per_epoch")


@dataclass(frozen=True)
class Chosen:
    """The configuration of one model on one set that a table shows.

    Args:
        dataset, metric: of the set.
        group: its runs.
        searched: settings of this model on this set that there are records of.
    """

    dataset: str
    metric: str
    group: Group
    searched: int

    @property
    def setting(self) -> str:
        """Rate, readout and dropout that the search chose."""
        config = self.group.first.mapping("config")
        values = [config.get(name) for name in SEARCHED[:3]]
        return ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in values if value is not None
        )

    @property
    def updates(self) -> str:
        """Updates of a whole training as text, if the record has them."""
        updates = updates_of(self.group)
        return f"{updates:,}" if updates else ABSENT

    @property
    def test(self) -> Estimate:
        return self.group.estimate("metrics", "final", f"test/{self.metric}")

    @property
    def validation(self) -> Estimate:
        return self.group.estimate("metrics", "best", self.metric)


def choose(runs: Sequence[Record]) -> list[Chosen]:
    """For each set and model the setting that was run at most seeds; of several, the best on validation.

    A search runs many settings at one seed and the best of them at more, so what is shown is what it found. Controls
    and other options of a memory are models of their own here, called a variant.
    """
    found: list[Chosen] = []
    for dataset in dict.fromkeys(_dataset(run) for run in runs):
        own = [run for run in runs if _dataset(run) == dataset]
        metric = own[0].name("diagnostics", "metric")
        sign = 1 if METRICS[metric][2] else -1
        by_model: dict[tuple[str, ...], list[Group]] = {}
        for item in group(own, apart=SHOWN):
            schedule = [str(item.first.find("config", name)) for name in ("epochs", "steps_per_epoch")]
            by_model.setdefault((item.model, item.variant, *schedule), []).append(item)
        for items in by_model.values():
            best = max(items, key=lambda item: (len(item.runs), sign * item.estimate("metrics", "best", metric).mean))
            found.append(Chosen(dataset, metric, best, len(items)))
    return found


def rows(records: Records, task: str, preset: str, sets: str) -> Rows:
    """One row per set and model; of all sets, or of those named."""
    found = choose(_of_sets(records.runs(task, preset), task, sets))
    times, over = _times(records), "splits" if task == "nodes" else "seeds"
    groups = [item.group for item in found]
    cells: list[tuple[str, ...]] = []
    for item in found:
        title, scale, _ = METRICS[item.metric]
        digits = 1 if scale == 100 else 3
        reference = _reference(item, found)
        named = (item.dataset, item.group.model)
        score, model = PUBLISHED.get(named, (None, ABSENT)) if not item.group.variant else (None, ABSENT)
        cells.append(
            (
                f"{item.dataset}, {title}",
                item.group.title,
                _test(item),
                _gain(item, reference, scale, digits),
                show(item.validation, scale, digits),
                item.updates,
                f"{item.group.first.whole('parameters', 'total') / 1000:.0f}",
                times.get((item.dataset, item.group.title), ABSENT),
                str(item.searched),
                item.setting,
                str(len(item.group.runs)),
                ABSENT if score is None else f"{score:.{digits}f}",
                model,
            )
        )
    columns: tuple[Column, ...] = (
        Column("Set", left=True),
        Column("Memory", left=True),
        Column("Test"),
        Column("Gain"),
        Column("Validation"),
        Column("Updates"),
        Column("Parameters, k"),
        Column("Time"),
        Column("Settings"),
        Column("Chosen", left=True),
        Column(over.capitalize()),
        Column("Score", group="published"),
        Column("Model and budget", group="published", left=True, wide=True),
    )
    if not times:
        at = [column.title for column in columns].index("Time")
        columns, cells = columns[:at] + columns[at + 1 :], [cell[:at] + cell[at + 1 :] for cell in cells]
    return Rows(columns, cells, groups=groups, interval=interval(groups, over), listed=listed(groups, over))


def by_readout(records: Records, task: str, preset: str, sets: str) -> Rows | None:
    """One row per set and model, one column per readout: what a memory adds where the readout counts already."""
    runs = _of_sets(records.runs(task, preset), task, sets)
    names = sorted({str(run.mapping("config").get("readout")) for run in runs})
    if len(names) < 2:
        return None
    found = {name: choose([run for run in runs if run.mapping("config").get("readout") == name]) for name in names}
    keys = dict.fromkeys((item.dataset, item.group.title) for name in names for item in found[name])
    cells, groups = [], []
    for dataset, title in keys:
        cell = [f"{dataset}, ", title]
        for name in names:
            item = next((one for one in found[name] if (one.dataset, one.group.title) == (dataset, title)), None)
            if item is None:
                cell.append(ABSENT)
                continue
            metric, _, _ = METRICS[item.metric]
            cell[0] = f"{dataset}, {metric}"
            cell.append(_test(item))
            groups.append(item.group)
        cells.append(tuple(cell))
    columns = (
        Column("Set", left=True),
        Column("Memory", left=True),
        *(Column(name, group="readout") for name in names),
    )
    return Rows(columns, cells, groups=groups)


@table("choosing", task="molecules")
def choosing(records: Records, preset: str, usual: str = "anchored") -> Rows | None:
    """What one change of a memory does, paired over seeds with the same memory as the preset has it."""
    found = choose(records.runs("molecules", preset))
    if not any(item.group.variant for item in found):
        return None
    bases = {item.dataset: item for item in found if item.group.model == usual and not item.group.variant}
    cells = []
    for item in found:
        base = bases.get(item.dataset)
        if base is None:
            continue
        _, scale, _ = METRICS[item.metric]
        digits = 1 if scale == 100 else 3
        name = item.group.variant if item.group.model == usual else item.group.title
        cells.append(
            (
                item.dataset,
                name or f"{item.group.title}, as it is",
                show(item.test, scale, digits),
                _gain(item, base, scale, digits),
                _gain(item, _reference(item, found), scale, digits),
                f"{item.group.first.whole('parameters', 'total') / 1000:.0f}",
                str(len(item.group.runs)),
            )
        )
    columns = (
        Column("Set", left=True),
        Column("Change", left=True),
        Column("Test"),
        Column("Better than the usual"),
        Column("Better than no memory"),
        Column("Parameters, k"),
        Column("Seeds"),
    )
    return Rows(columns, cells, groups=[item.group for item in found]) if cells else None


def _test(item: Chosen) -> str:
    _, scale, _ = METRICS[item.metric]
    return shares(item.group, "metrics", "final", f"test/{item.metric}") if scale == 100 else show(item.test)


def _reference(item: Chosen, found: Sequence[Chosen]) -> Chosen | None:
    """No memory on the same set, with the same options where that was run."""
    without = [one for one in found if one.dataset == item.dataset and one.group.model == REFERENCE]
    alike = [one for one in without if one.group.variant == item.group.variant]
    usual = [one for one in without if not one.group.variant]
    return next(iter(alike + usual), None)


def _gain(item: Chosen, reference: Chosen | None, scale: float, digits: int) -> str:
    if reference is None or item is reference:
        return ABSENT
    name = f"test/{item.metric}"
    ours, theirs = (one.group.by_seed("metrics", "final", name) for one in (item, reference))
    if not ours.keys() & theirs.keys():
        return ABSENT
    better = scale if METRICS[item.metric][2] else -scale
    found = paired_difference(
        {seed: better * value for seed, value in ours.items()}, {seed: better * value for seed, value in theirs.items()}
    )
    return show(found, 1.0, digits, sign=True)


def _times(records: Records) -> dict[tuple[str, str], str]:
    """Time of an update over that of the plain network, by set and title, if it was measured in turns of one run.

    Run records cannot tell: the machine may have been busy with one run and idle with another.
    """
    measured = [record for record in records.kind("bench") if record.find("name") == UPDATES]
    return {
        (row.text("set"), row.text("memory")): f"{row.number('over_plain_network'):.1f}"
        for record in measured
        for row in record.parts("rows")
    }


def _of_sets(runs: Sequence[Record], task: str, sets: str) -> list[Record]:
    """The runs on all sets, or on those of a list with commas."""
    there = list(dict.fromkeys(map(_dataset, runs)))
    wanted = there if sets == "all" else sets.split(",")
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise ValueError(f"table '{task}': no run on '{unknown[0]}', expected some of {', '.join(there)}, or 'all'.")
    return [run for run in runs if _dataset(run) in wanted]


def _dataset(run: Record) -> str:
    return str(run.mapping("config").get("dataset", ""))


def _register(task: str) -> None:
    @table(task, task=task)
    def build(records: Records, preset: str, sets: str = "all") -> Rows:
        return rows(records, task, preset, sets)

    if task != "nodes":

        @table(f"{task}-readouts", task=task)
        def readouts(records: Records, preset: str, sets: str = "all") -> Rows | None:
            return by_readout(records, task, preset, sets)


for _task in TASKS:
    _register(_task)
