"""Accuracy on the original Two-Radius task against its size, ours beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.suite.report import paper
from mooring.suite.report.builders.original import Row, measured
from mooring.suite.report.figures.style import Picture, colour, end_labels, panel, styled
from mooring.suite.report.records import Record

# Model, name beside the line, accuracy in % by size.
Line = tuple[str, str, Mapping[int, float]]


@styled
def accuracy_by_size(runs: Sequence[Record]) -> Picture | None:
    """Two panels on the same axes: measured test accuracy by n, and the published numbers at width 1024."""
    rows = measured(runs)
    if not rows:
        return None
    left: list[Line] = [(row.model, _name(row, rows), row.percentages()) for row in rows]
    right: list[Line] = [
        (model, paper.short(model), dict(zip(paper.ORIGINAL_SIZES, by_width[1024], strict=True)))
        for model, by_width in paper.ORIGINAL.items()
    ]
    panels = []
    for title, lines in (("Measured", left), ("Published, width 1024", right)):
        figure, axes = panel(title, "identifiers n", "accuracy (%)", (3.5, 2.8))
        labels = []
        for position, (model, name, points) in enumerate(lines):
            sizes = sorted(points)
            ink = colour(model, position)
            axes.plot(sizes, [points[n] for n in sizes], "-o", color=ink, ms=3.5)
            labels.append((points[sizes[-1]], name, ink))
        axes.set_ylim(-2, 103)
        axes.set_xlim(0, max(paper.ORIGINAL_SIZES) * 1.03)
        axes.set_xticks(paper.ORIGINAL_SIZES)
        end_labels(axes, labels)
        panels.append(figure)
    caption = (
        "Every target must fetch one of ten labels through a bottleneck that n sources share. Left, what we measured "
        "with 2,000 updates or fewer; right, the numbers of Mishayev et al. (arXiv 2511.20406), who tune each model: "
        "the panels are not comparable like for like."
    )
    return Picture("original-two-radius", "The original task as it grows", caption, tuple(panels))


def _name(row: Row, rows: Sequence[Row]) -> str:
    """The row's short name, with its width where the same model was run at several."""
    widths = {other.width for other in rows if other.short == row.short}
    return f"{row.short}, {row.width}" if len(widths) > 1 else row.short
