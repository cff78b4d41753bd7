"""Calibration figure of predicted links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.suite.linksets.tables import TASK
from mooring.suite.records import Records
from mooring.suite.report.drawing import MUTED, belongs, curve, inked, panel
from mooring.suite.report.exhibits import figure
from mooring.suite.report.groups import usual_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure(
    "calibration",
    task=TASK,
    title="Does confidence mean anything? (preset {preset})",
    caption="""
    Pairs are binned by the predicted probability of a link and compared with how many really are links; each line is a
    seed, and larger dots hold more pairs. On the dashed diagonal a model is calibrated; a confident model has its large
    dots at the two ends.
    """,
)
def calibration(records: Records, preset: str) -> list[Figure]:
    """Draw observed frequency against predicted confidence, marker area by number of pairs; one panel per model."""
    panels = []
    for group, ink in inked(usual_groups(records, TASK, preset), "diagnostics", "calibration"):
        figure, axes = panel(group.short, "confidence", "share that are links", (2.5, 2.5))
        axes.plot([0, 1], [0, 1], color=MUTED, lw=0.9, ls=(0, (4, 3)))
        for run in group.runs:
            columns = [
                run.numbers("diagnostics", "calibration", name, gaps=True)
                for name in ("confidence", "frequency", "weight")
            ]
            if len({len(column) for column in columns}) > 1:
                raise run.error("field 'diagnostics.calibration' has columns of different lengths.")
            points = [point for point in zip(*columns, strict=True) if None not in point and point[2] > 0]
            heaviest = max((weight for _, _, weight in points), default=1.0)
            across, up = [point[0] for point in points], [point[1] for point in points]
            curve(axes, across, up, f"seed {run.seed}", ink, lw=1.0, alpha=0.6)
            # A square root keeps the rare, confident bins visible beside the bin of certain non-links.
            areas = [4 + 50 * (weight / heaviest) ** 0.5 for _, _, weight in points]
            axes.scatter(across, up, areas, color=ink, alpha=0.55, lw=0, gid=belongs(f"seed {run.seed}"))
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_aspect("equal")
        panels.append(figure)
    return panels
