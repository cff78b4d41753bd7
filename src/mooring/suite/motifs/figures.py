"""Motif counting error against the true count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.suite.motifs.tables import SPLITS, TASK
from mooring.suite.records import Records
from mooring.suite.report.drawing import curve, end_labels, inked, log_ticks, panel
from mooring.suite.report.exhibits import figure
from mooring.suite.report.groups import Group, usual_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = ("iid", "counts", "jittered")


@figure(
    "motif-error",
    task=TASK,
    title="Error against the true count (preset {preset})",
    caption="""
    The error of log(1 + count), averaged over motifs and seeds, for graphs in which a motif occurs that often. A
    readout that sees only proportions cannot recognise larger counts, so its error rises beyond the counts it was
    trained on; one that measures mass can stay flat.
    """,
)
def error_by_count(records: Records, preset: str) -> list[Figure]:
    """Mean absolute error of log(1 + count) at each true count, mean over seeds; one panel per split."""
    from matplotlib.ticker import MaxNLocator

    panels = []
    for split in DRAWN:
        members = inked(usual_groups(records, TASK, preset), "diagnostics", "error_by_count", split)
        if not members:
            continue
        figure, axes = panel(SPLITS[split], "true count", "log-MAE")
        labels = []
        for group, ink in members:
            points = by_count(group, split)
            curve(axes, list(points), list(points.values()), group.short, ink, "-o", ms=2.5, lw=1.3)
            labels.append((list(points.values())[-1], group.short, ink))
        axes.set_yscale("log")
        log_ticks(axes.yaxis, *axes.get_ylim())
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        end_labels(axes, labels)
        panels.append(figure)
    return panels


def by_count(group: Group, split: str) -> dict[int, float]:
    """Error at each true count that some seed has seen, the mean over the seeds that have."""
    by_count: dict[int, list[float]] = {}
    for run in group.runs:
        counts = run.numbers("diagnostics", "error_by_count", split, "count")
        errors = run.numbers("diagnostics", "error_by_count", split, "log_mae", gaps=True)
        if len(counts) != len(errors):
            where = f"diagnostics.error_by_count.{split}"
            raise run.error(f"field '{where}' has {len(counts)} counts but {len(errors)} errors.")
        for count, error in zip(counts, errors, strict=True):
            if error is not None:
                by_count.setdefault(int(count), []).append(float(error))
    if not by_count:
        raise group.first.error(f"field 'diagnostics.error_by_count.{split}' holds no error.")
    return {count: sum(values) / len(values) for count, values in sorted(by_count.items())}
