"""Learning curves of label, count and both, with the ceiling of a replication-blind model."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.suite.report.figures.style import MUTED, Picture, colour, end_labels, panel, styled
from mooring.suite.report.groups import Group
from mooring.suite.report.paper import References


@styled
def learning_curves(groups: Sequence[Group], reference: References) -> Picture:
    """Validation accuracy over epochs: the mean over seeds as a line, the lowest and highest seed as a band."""
    lines = {
        "label": [(reference.label, "chance")],
        "count": [(reference.count, "constant"), (reference.blind, "blind ceiling")],
        "both": [(reference.both, "chance"), (reference.blind, "blind ceiling")],
    }
    panels = []
    for metric, marks in lines.items():
        figure, axes = panel(metric.capitalize(), "epoch", "accuracy (%)", (2.75, 2.3))
        labels = []
        for position, group in enumerate(groups):
            epochs, rows = curves(group, metric)
            mean = [sum(row) / len(row) for row in rows]
            ink = colour(group.model, position)
            axes.plot(epochs, mean, color=ink, zorder=3)
            axes.fill_between(
                epochs, [min(row) for row in rows], [max(row) for row in rows], color=ink, alpha=0.2, lw=0
            )
            labels.append((mean[-1], group.short, ink))
        for height, name in marks:
            axes.axhline(100 * height, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=1)
            labels.append((100 * height, f"{name} {100 * height:.1f}", MUTED))
        axes.set_ylim(-2, 103)
        axes.margins(x=0.01)
        end_labels(axes, labels)
        panels.append(figure)
    caption = (
        "Each line is the mean over seeds of the validation accuracy; the band runs from the worst seed to the best. "
        "A model at the chance line does no better than a constant guess, and the blind ceiling is the most that a "
        "model can reach that knows what was written but not how often."
    )
    return Picture("learning-curves", "Learning curves", caption, tuple(panels))


def curves(group: Group, metric: str) -> tuple[list[int], list[list[float]]]:
    """Epochs all seeds reached, and at each the accuracies in % of the seeds."""
    by_run = []
    for run in group.runs:
        rows = run.parts("metrics", "epochs")
        if not rows:
            raise run.error("field 'metrics.epochs' is empty.")
        by_run.append({row.whole("epoch"): 100 * row.number(metric) for row in rows})
    shared = sorted(set.intersection(*(set(run) for run in by_run)))
    return shared, [[run[epoch] for run in by_run] for epoch in shared]
