"""Which count is predicted for which true count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.suite.report.figures.heatmaps import matrix
from mooring.suite.report.figures.style import HEAT, MUTED, Picture, panel, styled
from mooring.suite.report.groups import Group


@styled
def count_confusion(groups: Sequence[Group]) -> Picture | None:
    """Confusion of counts summed over seeds, each row normalised to one; one panel per model."""
    panels = []
    for group in groups:
        if not group.has("diagnostics", "count_confusion"):
            continue
        tables = [matrix(run, "count_confusion", run.items("diagnostics", "count_confusion")) for run in group.runs]
        for run, table in zip(group.runs, tables, strict=True):
            if table.shape != (len(tables[0]), len(tables[0])):
                got = f"{table.shape[0]} rows of {table.shape[1]}"
                raise run.error(
                    f"field 'diagnostics.count_confusion' has {got}, expected a square as large as the others."
                )
        total = np.sum(tables, axis=0)
        rows = total.sum(axis=1, keepdims=True)
        share = np.divide(total, rows, out=np.zeros_like(total), where=rows > 0)
        figure, axes = panel(group.short, "predicted count", "true count", (2.5, 2.5))
        size = len(share)
        edges = np.arange(size + 1) + 0.5
        axes.pcolormesh(edges, edges, share, cmap=HEAT, vmin=0, vmax=1)
        axes.plot([0.5, size + 0.5], [0.5, size + 0.5], color=MUTED, lw=0.7, ls=(0, (2, 3)))
        axes.set_aspect("equal")
        ticks = [count for count in range(1, size + 1) if count == 1 or count % 3 == 0]
        axes.set_xticks(ticks)
        axes.set_yticks(ticks)
        axes.tick_params(length=0)
        panels.append(figure)
    if not panels:
        return None
    caption = (
        "Each row shows what is predicted for one true count, darker for more often; the dotted diagonal is the right "
        "answer. A replication-blind model spreads each row over the counts that one base number can give at the "
        "different scales; counts that no base number produces leave an empty row."
    )
    return Picture("count-confusion", "Which counts are confused", caption, tuple(panels))
