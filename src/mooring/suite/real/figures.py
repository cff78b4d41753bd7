"""Learning curves on real graphs: they show whether a run was still learning at its end."""

from __future__ import annotations

from matplotlib.figure import Figure

from mooring.suite.real.tables import METRICS, TASKS, choose
from mooring.suite.records import Records
from mooring.suite.report.drawing import colours, curve, end_labels, figure, panel


def curves(records: Records, task: str, preset: str) -> list[Figure]:
    """Validation score over epochs, the mean over seeds; one panel per set."""
    found = choose(records.runs(task, preset))
    inks = colours(item.group.model for item in found)
    panels = []
    for dataset in dict.fromkeys(item.dataset for item in found):
        items = [item for item in found if item.dataset == dataset]
        name, scale, _ = METRICS[items[0].metric]
        drawn, axes = panel(dataset, "epoch", f"validation {name}")
        labels = []
        for item in items:
            epochs, rows = item.group.curves(item.metric)
            means = [sum(row) / len(row) for row in rows]
            ink = inks[item.group.model]
            curve(axes, epochs, [scale * mean for mean in means], item.group.short, ink, lw=1.3)
            labels.append((scale * means[-1], item.group.short, ink))
        axes.margins(x=0.01)
        end_labels(axes, labels)
        panels.append(drawn)
    return panels


def _register(task: str) -> None:
    @figure(f"{task}-curves", task=task)
    def draw(records: Records, preset: str) -> list[Figure]:
        return curves(records, task, preset)


for _task in TASKS:
    _register(_task)
