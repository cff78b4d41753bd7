"""Count accuracy at each replication scale."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.suite.report.builders.two_radius import scales_of
from mooring.suite.report.figures.style import MUTED, Picture, colour, end_labels, panel, styled
from mooring.suite.report.groups import Group
from mooring.suite.report.paper import References


@styled
def count_by_scale(groups: Sequence[Group], reference: References) -> Picture | None:
    """Mean over seeds of the count accuracy at each scale, one line per model."""
    groups = [group for group in groups if group.has("diagnostics", "count_accuracy_by_scale")]
    if not groups:
        return None
    figure, axes = panel("Count accuracy by scale", "replication scale r", "accuracy (%)", (3.2, 2.5))
    labels = []
    for position, group in enumerate(groups):
        ink = colour(group.model, position)
        scales = scales_of(group.first)
        means = [100 * group.estimate("diagnostics", "count_accuracy_by_scale", scale).mean for scale in scales]
        axes.plot([int(scale) for scale in scales], means, "-o", color=ink)
        axes.set_xticks([int(scale) for scale in scales])
        labels.append((means[-1], group.short, ink))
    axes.set_ylim(-2, 103)
    axes.margins(x=0.08)
    axes.axhline(100 * reference.blind, color=MUTED, lw=0.9, ls=(0, (4, 3)))
    labels.append((100 * reference.blind, f"blind ceiling {100 * reference.blind:.1f}", MUTED))
    end_labels(axes, labels)
    caption = (
        "How often the exact count is right when every source appears r times its base number, mean over seeds. "
        "A model that cannot see r gives the same answers at every scale, so what it gains at one scale it loses at "
        "another, and its expected mean stays at or below the ceiling."
    )
    return Picture("count-by-scale", "Counting at each scale", caption, (figure,))
