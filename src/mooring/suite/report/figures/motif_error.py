"""Motif counting error against the true count."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from mooring.suite.report import paper
from mooring.suite.report.figures.style import Picture, colour, end_labels, log_ticks, panel, styled
from mooring.suite.report.groups import Group


@styled
def error_by_count(groups: Sequence[Group], splits: Sequence[str] = ("iid", "counts", "jittered")) -> Picture | None:
    """Mean absolute error of log(1 + count) at each true count, mean over seeds; one panel per split."""
    groups = [group for group in groups if group.has("diagnostics", "error_by_count")]
    panels = []
    for split in splits:
        members = [group for group in groups if group.has("diagnostics", "error_by_count", split)]
        if not members:
            continue
        figure, axes = panel(paper.SPLITS.get(split, split), "true count", "log-MAE")
        labels = []
        for position, group in enumerate(members):
            points = by_count(group, split)
            ink = colour(group.model, position)
            axes.plot(list(points), list(points.values()), "-o", color=ink, ms=2.5, lw=1.3)
            labels.append((list(points.values())[-1], group.short, ink))
        axes.set_yscale("log")
        log_ticks(axes.yaxis, *axes.get_ylim())
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        end_labels(axes, labels)
        panels.append(figure)
    if not panels:
        return None
    caption = (
        "The error of log(1 + count), averaged over motifs and seeds, for graphs in which a motif occurs that often. "
        "A readout that sees only proportions cannot recognise larger counts, so its error rises beyond the counts it "
        "was trained on; one that measures mass can stay flat."
    )
    return Picture("motif-error", "Error against the true count", caption, tuple(panels))


def by_count(group: Group, split: str) -> dict[int, float]:
    """Error at each true count that some seed has seen, the mean over the seeds that have."""
    found: dict[int, list[float]] = {}
    for run in group.runs:
        counts = run.numbers("diagnostics", "error_by_count", split, "count")
        errors = run.numbers("diagnostics", "error_by_count", split, "log_mae", gaps=True)
        if len(counts) != len(errors):
            where = f"diagnostics.error_by_count.{split}"
            raise run.error(f"field '{where}' has {len(counts)} counts but {len(errors)} errors.")
        for count, error in zip(counts, errors, strict=True):
            if error is not None:
                found.setdefault(int(count), []).append(float(error))
    if not found:
        raise group.first.error(f"field 'diagnostics.error_by_count.{split}' holds no error.")
    return {count: sum(values) / len(values) for count, values in sorted(found.items())}
