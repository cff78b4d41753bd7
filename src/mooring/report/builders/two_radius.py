"""Tables of the counted Two-Radius task (tab:counted and the diagnostics of app:protocol)."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.report import paper
from mooring.report.groups import Group, group
from mooring.report.records import Records
from mooring.report.settings import reference_lines
from mooring.report.stats import paired_difference
from mooring.report.tables import ABSENT, Column, Table, percent, plain, show

TASK = "two-radius"
METRICS = ("label", "count", "both")


def accuracy(records: Records, preset: str) -> Table:
    """Label, count and both of every model beside the paper's numbers."""
    runs = records.runs(TASK, preset)
    groups = group(runs)
    rows = []
    for item in groups:
        # The paper's numbers belong to the paper's configuration only.
        published = (None,) * 3 if item.variant else paper.COUNTED.get(item.model, (None,) * 3)
        measured = [percent(item.estimate("metrics", "best", name)) for name in METRICS]
        rows.append((item.title, *measured, *(plain(value, 1) for value in published), str(len(item.runs))))
    columns = (
        Column("Model", left=True),
        *(Column(name.capitalize()) for name in METRICS),
        *(Column(name.capitalize(), group="paper") for name in METRICS),
        Column("Seeds"),
    )
    chance = reference_lines(runs[0])
    notes = [
        f"Accuracy in %{interval(groups)}, at the epoch with the best Both.",
        f"Guessing gives {100 * chance.label:.1f} / {100 * chance.count:.1f} / {100 * chance.both:.1f}; a model that "
        f"knows "
        f"every base count but not the scale tops out at {100 * chance.blind:.1f} on Count.",
        *differences(groups),
    ]
    return Table("two-radius", f"Counted Two-Radius, preset {preset}", columns, tuple(rows), tuple(notes))


def diagnostics(records: Records, preset: str) -> Table:
    """Graph recovery, state distance, count accuracy by scale, size and time of every model."""
    rows = []
    groups = group(records.runs(TASK, preset))
    scales = sorted(
        {scale for item in groups for scale in item.first.find("diagnostics", "count_accuracy_by_scale") or {}}, key=int
    )
    for item in groups:
        by_scale = [
            percent(item.estimate("diagnostics", "count_accuracy_by_scale", scale))
            if item.has("diagnostics", "count_accuracy_by_scale", scale)
            else ABSENT
            for scale in scales
        ]
        rows.append(
            (
                item.title,
                percent(item.estimate("metrics", "best", "graph")) if item.has("metrics", "best", "graph") else ABSENT,
                _distance(item),
                *by_scale,
                show(item.estimate("selected_epoch"), digits=0),
                f"{item.first.whole('parameters', 'total'):,}",
                show(item.estimate("wall_seconds"), digits=0).split(" ±")[0],
            )
        )
    columns = (
        Column("Model", left=True),
        Column("Graphs"),
        Column("State change"),
        *(Column(f"r = {scale}", group="count at scale") for scale in scales),
        Column("Epoch"),
        Column("Parameters"),
        Column("Seconds"),
    )
    notes = (
        "Graphs: share of graphs with every target right, in %. State change: largest difference of the global state "
        "from "
        "its r = 1 state, the largest over scales and seeds.",
    )
    return Table("two-radius-diagnostics", f"Diagnostics, preset {preset}", columns, tuple(rows), notes)


def differences(groups: Sequence[Group]) -> list[str]:
    """Anchored minus Cross-Attn on Both, paired by seed, in a sentence."""
    by_model = {item.model: item for item in groups if not item.variant}
    if not {"anchored", "cross-attn"} <= by_model.keys():
        return []
    first, second = (by_model[name].by_seed("metrics", "best", "both") for name in ("anchored", "cross-attn"))
    if len(first.keys() & second.keys()) < 2:
        return []
    gap = paired_difference(first, second)
    return [f"Anchored minus Cross-Attn on Both, paired over {gap.count} seeds: {show(gap, 100, 1, sign=True)}."]


def interval(groups: Sequence[Group]) -> str:
    """What the ± of a table means, where some row has more than one seed."""
    return ", mean ± 95 % interval over seeds" if any(len(item.runs) > 1 for item in groups) else ""


def _distance(item: Group) -> str:
    found = [
        run.items("diagnostics", "state_distance", "max")
        for run in item.runs
        if run.find("diagnostics", "state_distance")
    ]
    largest = max((max(values) for values in found), default=None)
    return ABSENT if largest is None else f"{largest:.1e}" if largest < 0.01 else f"{largest:.2f}"
