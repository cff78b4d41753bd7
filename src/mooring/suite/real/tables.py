"""Tables of real graphs: every memory on every set, beside no memory and beside what is published."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.suite.real.chosen import METRICS, PUBLISHED, Chosen, choose, dataset_of
from mooring.suite.records import Record, Records
from mooring.suite.report.claims import one_budget
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import interval, listed, paired_difference, shares, show
from mooring.table import ABSENT, Column

REFERENCE = "none"
# The bench record of times, see benchmarks/updates.py.
UPDATES = "updates"
SCORES = """
    Test score at the epoch with the best validation score{interval}{listed}. Gain: how much better than no memory,
    paired over {over}.{about} No memory: the parameters of a memory are spent in an MLP that sees one node at a time.
    All but the plain network have one budget of parameters, and all the same updates. Time, if it was measured: an
    update as a multiple of one of the plain network, which has neither a memory nor that MLP, in turns of one run.
    Settings: how many of this memory on this set were tried; the chosen one ({varied}) was best on validation.

    Published scores are others', at larger budgets, and are not comparable.
    """
# Of the nodes alone.
SPLITS = (
    " All splits are of one graph: an interval is about the choice of the training nodes, and not about other graphs."
)
BY_READOUT = """
    Test score of the setting with this readout that was best on validation{interval}. What a memory gains with a mean
    and not with a sum is the size of the graph, or what goes with it.
    """


def _scores(records: Records, task: str, preset: str, sets: str) -> Body:
    """One row per set and model; of all sets, or of those named."""
    chosen = choose(_of_sets(records.runs(task, preset), task, sets))
    times, over = _times(records), "splits" if task == "nodes" else "seeds"
    groups = [item.group for item in chosen]
    cells: list[tuple[str, ...]] = []
    for item in chosen:
        title, scale, _ = METRICS[item.metric]
        digits = 1 if scale == 100 else 3
        reference = _reference(item, chosen)
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
    return Body(
        columns,
        cells,
        groups=groups,
        interval=interval(groups, over),
        listed=listed(groups, over),
        over=over,
        about=SPLITS if task == "nodes" else "",
        varied="learning rate, dropout" if task == "nodes" else "learning rate, readout, dropout",
    )


def _by_readout(records: Records, task: str, preset: str, sets: str) -> Body | None:
    """One row per set and model, one column per readout: what a memory adds where the readout counts already."""
    runs = _of_sets(records.runs(task, preset), task, sets)
    names = sorted({str(run.mapping("config").get("readout")) for run in runs})
    if len(names) < 2:
        return None
    by_readout = {name: choose([run for run in runs if run.mapping("config").get("readout") == name]) for name in names}
    keys = dict.fromkeys((item.dataset, item.group.title) for name in names for item in by_readout[name])
    cells, groups = [], []
    for dataset, title in keys:
        cell = [f"{dataset}, ", title]
        for name in names:
            item = next(
                (each for each in by_readout[name] if (each.dataset, each.group.title) == (dataset, title)), None
            )
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
    return Body(columns, cells, groups=groups)


@table("molecules", task="molecules", title="Molecules, preset {preset}", notes=SCORES, claims=(one_budget,))
def molecules(records: Records, preset: str, sets: str = "all") -> Body:
    """Return one row per set and model; of all sets, or of those named."""
    return _scores(records, "molecules", preset, sets)


@table("molecules-readouts", task="molecules", title="Molecules by readout, preset {preset}", notes=BY_READOUT)
def molecules_by_readout(records: Records, preset: str, sets: str = "all") -> Body | None:
    """Return one row per set and model, one column per readout."""
    return _by_readout(records, "molecules", preset, sets)


@table("peptides", task="peptides", title="Peptides, preset {preset}", notes=SCORES, claims=(one_budget,))
def peptides(records: Records, preset: str, sets: str = "all") -> Body:
    """Return one row per set and model; of all sets, or of those named."""
    return _scores(records, "peptides", preset, sets)


@table("peptides-readouts", task="peptides", title="Peptides by readout, preset {preset}", notes=BY_READOUT)
def peptides_by_readout(records: Records, preset: str, sets: str = "all") -> Body | None:
    """Return one row per set and model, one column per readout."""
    return _by_readout(records, "peptides", preset, sets)


@table("nodes", task="nodes", title="Large graphs, preset {preset}", notes=SCORES, claims=(one_budget,))
def nodes(records: Records, preset: str, sets: str = "all") -> Body:
    """Return one row per set and model; of all sets, or of those named."""
    return _scores(records, "nodes", preset, sets)


@table(
    "choosing",
    task="molecules",
    title="One change at a time",
    notes="""
    Test score at the epoch with the best validation score{interval}. Better: how much lower the error is than that of
    the usual memory, and than that without one, paired over seeds; less than zero is worse.
    """,
)
def choosing(records: Records, preset: str, usual: str = "anchored") -> Body | None:
    """What one change of a memory does, paired over seeds with the same memory as the preset has it."""
    chosen = choose(records.runs("molecules", preset))
    if not any(item.group.variant for item in chosen):
        return None
    bases = {item.dataset: item for item in chosen if item.group.model == usual and not item.group.variant}
    cells = []
    for item in chosen:
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
                _gain(item, _reference(item, chosen), scale, digits),
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
    return Body(columns, cells, groups=[item.group for item in chosen]) if cells else None


def _test(item: Chosen) -> str:
    _, scale, _ = METRICS[item.metric]
    return shares(item.group, "metrics", "final", f"test/{item.metric}") if scale == 100 else show(item.test)


def _reference(item: Chosen, chosen: Sequence[Chosen]) -> Chosen | None:
    """No memory on the same set, with the same options where that was run."""
    without = [other for other in chosen if other.dataset == item.dataset and other.group.model == REFERENCE]
    alike = [other for other in without if other.group.variant == item.group.variant]
    usual = [other for other in without if not other.group.variant]
    return next(iter(alike + usual), None)


def _gain(item: Chosen, reference: Chosen | None, scale: float, digits: int) -> str:
    if reference is None or item is reference:
        return ABSENT
    name = f"test/{item.metric}"
    ours, theirs = (other.group.by_seed("metrics", "final", name) for other in (item, reference))
    if not ours.keys() & theirs.keys():
        return ABSENT
    better = scale if METRICS[item.metric][2] else -scale
    gain = paired_difference(
        {seed: better * value for seed, value in ours.items()}, {seed: better * value for seed, value in theirs.items()}
    )
    return show(gain, 1.0, digits, sign=True)


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
    there = list(dict.fromkeys(map(dataset_of, runs)))
    wanted = there if sets == "all" else sets.split(",")
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise ValueError(f"table '{task}': no run on '{unknown[0]}', expected some of {', '.join(there)}, or 'all'.")
    return [run for run in runs if dataset_of(run) in wanted]
