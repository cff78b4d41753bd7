"""Learning curves on real graphs, which show whether a run was still learning at its end."""

from __future__ import annotations

from matplotlib.figure import Figure

from mooring.suite.real.tables import METRICS, TASKS, choose
from mooring.suite.records import Records
from mooring.suite.report.drawing import PALETTE, colours, curve, end_labels, figure, panel

# An error starts far above its final value; the axis ends at this multiple of the least.
HIGHEST = 2.0


def curves(records: Records, task: str, preset: str) -> list[Figure]:
    """Draw the validation score over epochs, mean over seeds; one panel per set. Variants of a memory are dashed."""
    rows = choose(records.runs(task, preset))
    inks = colours(item.group.model for item in rows)
    # Lines are dotted when the colours repeat.
    repeated = list(inks)[len(PALETTE) :]
    panels = []
    for dataset in dict.fromkeys(item.dataset for item in rows):
        items = [item for item in rows if item.dataset == dataset]
        name, scale, rises = METRICS[items[0].metric]
        drawn, axes = panel(dataset, "epoch", f"validation {name}")
        labels, least = [], float("inf")
        for item in items:
            epochs, scores = item.group.curves(item.metric)
            means = [scale * sum(row) / len(row) for row in scores]
            ink = inks[item.group.model]
            style = "--" if item.group.variant else ":" if item.group.model in repeated else "-"
            curve(axes, epochs, means, item.group.short, ink, style, lw=1.3)
            labels.append((means[-1], item.group.short, ink))
            least = min(least, *means)
        axes.margins(x=0.01)
        if not rises and least > 0:
            axes.set_ylim(0.95 * least, HIGHEST * least)
        end_labels(axes, labels)
        panels.append(drawn)
    return panels


def _register(task: str) -> None:
    @figure(f"{task}-curves", task=task)
    def draw(records: Records, preset: str) -> list[Figure]:
        return curves(records, task, preset)


for _task in TASKS:
    _register(_task)
