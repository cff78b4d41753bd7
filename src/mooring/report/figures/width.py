"""The ablation the paper leaves open: one wide state against slots of the same total width."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.report import paper
from mooring.report.figures.style import Picture, colour, end_labels, panel, styled
from mooring.report.groups import Group, group
from mooring.report.records import Record
from mooring.report.settings import setting
from mooring.report.stats import estimate


@styled
def by_width(runs: Sequence[Record]) -> Picture | None:
    """Label and Both against total width, a row of two panels for each number of identifiers."""
    points: dict[int, dict[str, dict[int, list[Record]]]] = {}
    for item in sorted(group(runs), key=_both):  # of several learning rates the best one stays
        run = item.first
        width = int(setting(run, "slots")) * int(setting(run, "channels"))
        points.setdefault(int(setting(run, "num_identifiers")), {}).setdefault(run.model, {})[width] = list(item.runs)
    panels = []
    for size, models in sorted(points.items()):
        for metric in ("label", "both"):
            title = f"{metric.capitalize()}, n = {size}"
            figure, axes = panel(title, "total width of the memory", "accuracy (%)", (3.4, 2.5))
            axes.set_xscale("log", base=2)
            labels = []
            for position, model in enumerate(sorted(models, key=paper.rank)):
                widths = sorted(models[model])
                found = [
                    estimate([run.number("metrics", "best", metric) for run in models[model][width]])
                    for width in widths
                ]
                ink = colour(model, position)
                axes.plot(widths, [100 * value.mean for value in found], "-o", color=ink, ms=3.5)
                axes.set_xticks(widths, [str(width) for width in widths])
                labels.append((100 * found[-1].mean, paper.short(model), ink))
            axes.minorticks_off()
            axes.set_ylim(-2, 103)
            end_labels(axes, labels)
            panels.append(figure)
    if not panels:
        return None
    caption = (
        "A virtual node of width M d, told to its graph in three ways, and M slots of width d, with the same number "
        "of parameters and updates, each point at its better learning rate. What lies between the lines at one width "
        "is the price of hiding the factorisation from the reader."
    )
    return Picture("wide-vn", "One wide state or many slots", caption, tuple(panels))


def _both(item: Group) -> float:
    return item.estimate("metrics", "best", "both").mean
