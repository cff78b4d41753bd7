"""How far the global state moves when every source is repeated r times."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.suite.report.figures.style import MUTED, Picture, colour, end_labels, log_ticks, panel, styled
from mooring.suite.report.groups import Group

# Differences below this are drawn on it: a logarithmic axis has no zero.
FLOOR = 1e-8
ROUNDING = 1e-5


@styled
def state_distance(groups: Sequence[Group]) -> Picture | None:
    """Largest difference from the r = 1 state on a logarithmic axis; None where no model has a global state."""
    groups = [group for group in groups if group.has("diagnostics", "state_distance")]
    if not groups:
        return None
    figure, axes = panel("Distance from the r = 1 state", "replication scale r", "largest difference", (3.2, 2.5))
    labels = []
    for position, group in enumerate(groups):
        ink = colour(group.model, position)
        scales = [int(scale) for scale in group.first.numbers("diagnostics", "state_distance", "scales")]
        by_run = [run.numbers("diagnostics", "state_distance", "max") for run in group.runs]
        for run, values in zip(group.runs, by_run, strict=True):
            if len(values) != len(scales):
                raise run.error(
                    f"field 'diagnostics.state_distance' has {len(values)} distances but {len(scales)} scales."
                )
        # The r = 1 state is zero away from itself, which says nothing.
        kept = [i for i, scale in enumerate(scales) if scale != 1]
        for values in by_run:
            axes.plot(
                [scales[i] for i in kept], [max(values[i], FLOOR) for i in kept], "o", color=ink, alpha=0.45, mew=0
            )
        middle = [sorted(max(values[i], FLOOR) for values in by_run)[len(by_run) // 2] for i in kept]
        axes.plot([scales[i] for i in kept], middle, "-", color=ink)
        axes.set_xticks([scales[i] for i in kept])
        labels.append((middle[-1], group.short, ink))
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, FLOOR / 2), max(high, 1.0))
    log_ticks(axes.yaxis, *axes.get_ylim())
    axes.margins(x=0.15)
    axes.axhline(ROUNDING, color=MUTED, lw=0.9, ls=(0, (4, 3)))
    labels.append((ROUNDING, "rounding error", MUTED))
    end_labels(axes, labels)
    caption = (
        "One assignment is rendered at several scales, and the whole global state is compared with its state at r = 1; "
        "dots are seeds, the line their median. A state that stays below rounding error carries nothing about the "
        "number of copies, so no decoder behind it can recover the count (prop:replication)."
    )
    return Picture("state-distance", "Does the memory change when everything is repeated?", caption, (figure,))
