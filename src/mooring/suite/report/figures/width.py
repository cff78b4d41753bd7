"""The ablation the paper leaves open: one wide state against slots of the same total width."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mooring.suite.report import paper
from mooring.suite.report.figures.style import Picture, colour, end_labels, styled
from mooring.suite.report.groups import Group, group
from mooring.suite.report.records import Record
from mooring.suite.report.settings import whole_setting
from mooring.suite.report.stats import estimate

# The runs at each total width, by number of identifiers and model.
Points = dict[int, dict[str, dict[int, list[Record]]]]


@styled
def by_width(runs: Sequence[Record]) -> Picture | None:
    """Label and Both against total width: two panels, each with one pair of axes per number of identifiers."""
    points: Points = {}
    for item in sorted(group(runs), key=_both):  # of several learning rates the best one stays
        run = item.first
        width = whole_setting(run, "slots") * whole_setting(run, "channels")
        points.setdefault(whole_setting(run, "num_identifiers"), {}).setdefault(run.model, {})[width] = list(item.runs)
    if not points:
        return None
    caption = (
        "One virtual node of width M d, returned to its nodes in three ways, and M slots of width d, for n "
        "identifiers, with the same number of parameters and limit on updates, each point at its better learning rate. "
        "The gap between the lines at one width is what is lost by not exposing the factorisation."
    )
    panels = tuple(_panel(points, metric) for metric in ("label", "both"))
    return Picture("wide-vn", "One wide state or many slots", caption, panels)


def _panel(points: Points, metric: str) -> Figure:
    figure = Figure(figsize=(1.0 + 1.7 * len(points), 2.5))
    row = figure.subplots(1, len(points), sharey=True, squeeze=False)[0]
    for axes, (size, models) in zip(row, sorted(points.items()), strict=True):
        axes.set_title(f"{metric.capitalize()}, n = {size}", pad=8)
        axes.set_xlabel("total width")
        ranked = enumerate(sorted(models, key=paper.rank))
        labels = [_line(axes, models[model], metric, model, position) for position, model in ranked]
    row[0].set_ylim(-2, 103)
    row[0].set_ylabel("accuracy (%)")
    end_labels(row[-1], labels)
    return figure


def _line(
    axes: Axes, by_width: dict[int, list[Record]], metric: str, model: str, position: int
) -> tuple[float, str, str]:
    """Draw one model; its height at the largest width, its name and its colour."""
    widths = sorted(by_width)
    values = [[run.number("metrics", "best", metric) for run in by_width[width]] for width in widths]
    found = [100 * estimate(of_seeds).mean for of_seeds in values]
    ink = colour(model, position)
    axes.set_xscale("log", base=2)
    axes.plot(widths, found, "-o", color=ink, ms=3.5)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    return found[-1], paper.short(model), ink


def _both(item: Group) -> float:
    return item.estimate("metrics", "best", "both").mean
