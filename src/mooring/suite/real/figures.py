"""Learning curves on real graphs: they show whether a run was still learning at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.suite.real.chosen import METRICS, choose
from mooring.suite.records import Records
from mooring.suite.report.drawing import PALETTE, colours, curve, end_labels, panel
from mooring.suite.report.exhibits import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# An error starts far above where it ends; what is above this many times the least is cut off.
HIGHEST = 2.0
CAPTION = """
    Validation score after each epoch, mean over seeds, of the configuration that the table shows. A line that still
    moves at its end says that more updates would change the table.
    """


@figure("molecules-curves", task="molecules", title="Molecules: learning curves (preset {preset})", caption=CAPTION)
def molecules(records: Records, preset: str) -> list[Figure]:
    """Draw the validation score over epochs, one panel per set."""
    return _curves(records, "molecules", preset)


@figure("peptides-curves", task="peptides", title="Peptides: learning curves (preset {preset})", caption=CAPTION)
def peptides(records: Records, preset: str) -> list[Figure]:
    """Draw the validation score over epochs, one panel per set."""
    return _curves(records, "peptides", preset)


@figure("nodes-curves", task="nodes", title="Large graphs: learning curves (preset {preset})", caption=CAPTION)
def nodes(records: Records, preset: str) -> list[Figure]:
    """Draw the validation score over epochs, one panel per set."""
    return _curves(records, "nodes", preset)


def _curves(records: Records, task: str, preset: str) -> list[Figure]:
    """Validation score over epochs, the mean over seeds; one panel per set. A variant of a memory is dashed."""
    chosen = choose(records.runs(task, preset))
    inks = colours(item.group.model for item in chosen)
    # Where the colours begin again, the lines are dotted.
    again = list(inks)[len(PALETTE) :]
    panels = []
    for dataset in dict.fromkeys(item.dataset for item in chosen):
        items = [item for item in chosen if item.dataset == dataset]
        name, scale, rises = METRICS[items[0].metric]
        drawn, axes = panel(dataset, "epoch", f"validation {name}")
        labels, least = [], float("inf")
        for item in items:
            epochs, rows = item.group.curves(item.metric)
            means = [scale * sum(row) / len(row) for row in rows]
            ink = inks[item.group.model]
            style = "--" if item.group.variant else ":" if item.group.model in again else "-"
            curve(axes, epochs, means, item.group.short, ink, style, lw=1.3)
            labels.append((means[-1], item.group.short, ink))
            least = min(least, *means)
        axes.margins(x=0.01)
        if not rises and least > 0:
            axes.set_ylim(0.95 * least, HIGHEST * least)
        end_labels(axes, labels)
        panels.append(drawn)
    return panels
