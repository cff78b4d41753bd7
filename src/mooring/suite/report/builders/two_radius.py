"""Tables of the counted Two-Radius task (tab:counted and the diagnostics of app:protocol)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mooring.suite.report import paper
from mooring.suite.report.groups import Group, group
from mooring.suite.report.records import Record, Records
from mooring.suite.report.settings import reference_lines
from mooring.suite.report.stats import paired_difference
from mooring.suite.report.tables import ABSENT, Column, Table, percent, plain, show

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
    # The first run stands for all, but a run whose settings make no sense is refused wherever it stands.
    chance, *_ = [reference_lines(run) for run in runs]
    notes = [
        f"Accuracy in %{interval(groups)}, at the epoch with the best Both.",
        f"Guessing gives {100 * chance.label:.1f} / {100 * chance.count:.1f} / {100 * chance.both:.1f}; a model that "
        f"knows every base count but not the scale reaches at most {100 * chance.blind:.1f} on Count on average.",
        *differences(groups),
    ]
    return Table("two-radius", f"Counted Two-Radius, preset {preset}", columns, tuple(rows), tuple(notes))


def diagnostics(records: Records, preset: str) -> Table:
    """Accuracy on fresh graphs, graph recovery, state change, count accuracy by scale, size and time of every model."""
    groups = group(records.runs(TASK, preset))
    scales = sorted({scale for item in groups for scale in scales_of(item.first)}, key=int)
    rows = []
    for item in groups:
        by_scale = [_mean(item, "diagnostics", "count_accuracy_by_scale", scale) for scale in scales]
        fresh = [_mean(item, "metrics", "final", name) for name in METRICS]
        costs = (
            f"{item.estimate('selected_epoch').mean:.0f}",
            f"{item.first.whole('parameters', 'total'):,}",
            f"{item.estimate('wall_seconds').mean:.0f}",
        )
        graphs = _mean(item, "metrics", "best", "graph")
        rows.append((item.title, *fresh, *by_scale, graphs, _distance(item), *costs))
    columns = (
        Column("Model", left=True),
        *(Column(name.capitalize(), group="fresh graphs") for name in METRICS),
        *(Column(f"r = {scale}", group="count at scale") for scale in scales),
        Column("Graphs"),
        Column("State change"),
        Column("Epoch"),
        Column("Parameters"),
        Column("Seconds"),
    )
    notes = (
        "Means over seeds, accuracies in %. Fresh graphs were not used to select the epoch. Graphs: share of graphs "
        "with every target right.",
        "State change: largest difference of the global state from its r = 1 state, over scales and seeds.",
    )
    return Table("two-radius-diagnostics", f"Diagnostics, preset {preset}", columns, tuple(rows), notes)


def scales_of(run: Record) -> list[str]:
    """The replication scales at which a run was counted, in their order; none where it was not."""
    if run.find("diagnostics", "count_accuracy_by_scale") is None:
        return []
    found = run.mapping("diagnostics", "count_accuracy_by_scale")
    for scale in found:
        if not re.fullmatch(r"[1-9]\d{0,8}", scale):
            raise run.error(
                f"field 'diagnostics.count_accuracy_by_scale' has the scale {scale!r:.40}, expected a whole number."
            )
    return sorted(found, key=int)


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
        run.numbers("diagnostics", "state_distance", "max")
        for run in item.runs
        if run.find("diagnostics", "state_distance")
    ]
    largest = max((max(values) for values in found), default=None)
    return ABSENT if largest is None else f"{largest:.1e}" if largest < 0.01 else f"{largest:.2f}"


def _mean(item: Group, *keys: str) -> str:
    return f"{100 * item.estimate(*keys).mean:.1f}" if item.has(*keys) else ABSENT
