"""Figure of the motif counting error against the true count."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mooring.suite.motifs.tables import SPLITS, TASK
from mooring.suite.records import Records
from mooring.suite.report.drawing import curve, end_labels, figure, inked, log_ticks, panel
from mooring.suite.report.groups import Group, usual_groups

DRAWN = ("iid", "counts", "jittered")


@figure("motif-error", task=TASK)
def error_by_count(records: Records, preset: str) -> list[Figure]:
    """Draw the mean absolute error of log(1 + count) at each true count, mean over seeds; one panel per split."""
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
    """Return the error at each true count, averaged over the seeds in which the count occurs."""
    errors_by_count: dict[int, list[float]] = {}
    for run in group.runs:
        counts = run.numbers("diagnostics", "error_by_count", split, "count")
        errors = run.numbers("diagnostics", "error_by_count", split, "log_mae", gaps=True)
        if len(counts) != len(errors):
            where = f"diagnostics.error_by_count.{split}"
            raise run.error(f"field '{where}' has {len(counts)} counts but {len(errors)} errors.")
        for count, error in zip(counts, errors, strict=True):
            if error is not None:
                errors_by_count.setdefault(int(count), []).append(float(error))
    if not errors_by_count:
        raise group.first.error(f"field 'diagnostics.error_by_count.{split}' holds no error.")
    return {count: sum(values) / len(values) for count, values in sorted(errors_by_count.items())}
