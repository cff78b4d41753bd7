"""Tables of real graphs: every memory on every set, beside no memory and published scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
OGB = "5 layers, 300 wide (arXiv 2005.00687)"
LRGB = "about 500k parameters (arXiv 2206.08164)"
# Published scores, keyed by data set and by our closest model; percent for areas, the target's units for errors. Each
# was read in the text of its source.
PUBLISHED: Mapping[tuple[str, str], tuple[float, str]] = {
    ("esol", "none"): (1.173, f"GIN, {OGB}"),
    ("hiv", "none"): (75.6, f"GIN, {OGB}"),
    ("hiv", "ogb-vn"): (77.1, f"GIN+VN, {OGB}"),
    ("func", "none"): (55.0, f"GINE, {LRGB}"),
    ("func", "transformer"): (65.4, "GPS, about 500k parameters (arXiv 2205.12454)"),
}
# The bench record of times, see benchmarks/updates.py.
UPDATES = "updates"
# Options that a search varies; a configuration that differs in any other option has a separate row.
SEARCHED = ("learning_rate", "readout", "layer_dropout", "weight_decay")
# Options that have columns and are not part of a row's name.
SHOWN = (*SEARCHED, "dataset", "epochs", "steps_per_epoch")


@dataclass(frozen=True)
class Chosen:
    """Configuration of one model on one set that a table shows.

    Args:
        dataset, metric: name and metric of the set.
        group: runs of the configuration.
        searched: number of recorded settings of this model on this set.
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
        """Updates of a whole training as text, or ABSENT if the record lacks them."""
        updates = updates_of(self.group)
        return f"{updates:,}" if updates else ABSENT

    @property
    def test(self) -> Estimate:
        return self.group.estimate("metrics", "final", f"test/{self.metric}")

    @property
    def validation(self) -> Estimate:
        return self.group.estimate("metrics", "best", self.metric)


def choose(runs: Sequence[Record]) -> list[Chosen]:
    """Choose for each set and model the setting that was run at most seeds; of several, the best on validation.

    A search runs many settings at one seed and the best of them at more seeds, so this selects its result. Controls and
    other options of a memory are separate models here, called variants.
    """
    choices: list[Chosen] = []
    for dataset in dict.fromkeys(_dataset(run) for run in runs):
        members = [run for run in runs if _dataset(run) == dataset]
        metric = members[0].name("diagnostics", "metric")
        sign = 1 if METRICS[metric][2] else -1
        by_model: dict[tuple[str, ...], list[Group]] = {}
        for item in group(members, apart=SHOWN):
            schedule = [str(item.first.find("config", name)) for name in ("epochs", "steps_per_epoch")]
            by_model.setdefault((item.model, item.variant, *schedule), []).append(item)
        for items in by_model.values():
            best = max(items, key=lambda item: (len(item.runs), sign * item.estimate("metrics", "best", metric).mean))
            choices.append(Chosen(dataset, metric, best, len(items)))
    return choices


def rows(records: Records, task: str, preset: str, sets: str) -> Rows:
    """Return one row per set and model; of all sets, or of those named."""
    items = choose(_of_sets(records.runs(task, preset), task, sets))
    times, over = _times(records), "splits" if task == "nodes" else "seeds"
    groups = [item.group for item in items]
    cells: list[tuple[str, ...]] = []
    for item in items:
        title, scale, _ = METRICS[item.metric]
        digits = 1 if scale == 100 else 3
        reference = _reference(item, items)
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
    """Return one row per set and model, one column per readout, to show what a memory adds to a counting readout."""
    runs = _of_sets(records.runs(task, preset), task, sets)
    names = sorted({str(run.mapping("config").get("readout")) for run in runs})
    if len(names) < 2:
        return None
    by_name = {name: choose([run for run in runs if run.mapping("config").get("readout") == name]) for name in names}
    keys = dict.fromkeys((item.dataset, item.group.title) for name in names for item in by_name[name])
    cells, groups = [], []
    for dataset, title in keys:
        cell = [f"{dataset}, ", title]
        for name in names:
            matches = (row for row in by_name[name] if (row.dataset, row.group.title) == (dataset, title))
            item = next(matches, None)
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
    """Show the effect of one change of a memory, paired over seeds with the memory of the preset."""
    items = choose(records.runs("molecules", preset))
    if not any(item.group.variant for item in items):
        return None
    bases = {item.dataset: item for item in items if item.group.model == usual and not item.group.variant}
    cells = []
    for item in items:
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
                _gain(item, _reference(item, items), scale, digits),
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
    return Rows(columns, cells, groups=[item.group for item in items]) if cells else None


def _test(item: Chosen) -> str:
    _, scale, _ = METRICS[item.metric]
    return shares(item.group, "metrics", "final", f"test/{item.metric}") if scale == 100 else show(item.test)


def _reference(item: Chosen, rows: Sequence[Chosen]) -> Chosen | None:
    """Return the run without memory on the same set, with the same options if that was run."""
    without = [row for row in rows if row.dataset == item.dataset and row.group.model == REFERENCE]
    alike = [row for row in without if row.group.variant == item.group.variant]
    usual = [row for row in without if not row.group.variant]
    return next(iter(alike + usual), None)


def _gain(item: Chosen, reference: Chosen | None, scale: float, digits: int) -> str:
    if reference is None or item is reference:
        return ABSENT
    name = f"test/{item.metric}"
    ours, theirs = (row.group.by_seed("metrics", "final", name) for row in (item, reference))
    if not ours.keys() & theirs.keys():
        return ABSENT
    better = scale if METRICS[item.metric][2] else -scale
    gain = paired_difference(
        {seed: better * value for seed, value in ours.items()}, {seed: better * value for seed, value in theirs.items()}
    )
    return show(gain, 1.0, digits, sign=True)


def _times(records: Records) -> dict[tuple[str, str], str]:
    """Return the time of an update relative to the plain network, by set and title, if measured in turns of one run.

    Run records are not comparable: the machine may have been busy during one run and idle during another.
    """
    measured = [record for record in records.kind("bench") if record.find("name") == UPDATES]
    return {
        (row.text("set"), row.text("memory")): f"{row.number('over_plain_network'):.1f}"
        for record in measured
        for row in record.parts("rows")
    }


def _of_sets(runs: Sequence[Record], task: str, sets: str) -> list[Record]:
    """Select the runs on all sets, or on those of a comma-separated list."""
    known = list(dict.fromkeys(map(_dataset, runs)))
    wanted = known if sets == "all" else sets.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"table '{task}': no run on '{unknown[0]}', expected some of {', '.join(known)}, or 'all'.")
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
