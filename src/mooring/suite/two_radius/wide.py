"""Figures of one wide state against many slots: by width, by parameters and over the updates."""

from __future__ import annotations

from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mooring.suite.records import Record, Records
from mooring.suite.report.drawing import MUTED, SMALL, belongs, colours, curve, end_labels, figure, log_ticks, panel
from mooring.suite.report.groups import Group, estimate, group, rank, short
from mooring.suite.two_radius.learning import LEADERBOARD, WIDTH, WidePoint, wide_points

# One shape per number of identifiers.
MARKS = ("o", "s", "^", "D")
# Runs by number of identifiers, model and total width.
Points = dict[int, dict[str, dict[int, list[Record]]]]


@figure("wide-vn", task=LEADERBOARD)
def by_width(records: Records) -> list[Figure]:
    """Draw Label and Both against total width: two panels, each with one pair of axes per number of identifiers."""
    points: Points = {}
    # Sorted by score, so that the best of several learning rates overwrites the others.
    for item in sorted(
        group(records.runs(LEADERBOARD, WIDTH)), key=lambda item: item.estimate("metrics", "best", "both").mean
    ):
        run = item.first
        width = run.count("slots") * run.count("channels")
        points.setdefault(run.count("num_identifiers"), {}).setdefault(run.model, {})[width] = list(item.runs)
    return [_by_width(points, metric) for metric in ("label", "both")] if points else []


@figure("wide-states", task=LEADERBOARD)
def by_updates(records: Records) -> list[Figure]:
    """Draw Both over the updates, mean over seeds, one panel per number of identifiers and budget."""
    points = wide_points(records)
    inks = colours(point.group.model for point in points)
    panels = []
    for size, updates in sorted({(point.identifiers, point.updates) for point in points}):
        shown = [point.group for point in points if (point.identifiers, point.updates) == (size, updates)]
        figure, axes = panel(f"n = {size}, {updates:,} updates at most", "updates", "Both (%)", (3.6, 2.7))
        longest = max(len(run.parts("metrics", "epochs")) for item in shown for run in item.runs)
        labels = [_learning(axes, item, updates, longest, inks[item.model]) for item in shown]
        axes.set_ylim(-2, 103)
        end_labels(axes, labels)
        panels.append(figure)
    return panels


@figure("wide-parameters", task=LEADERBOARD)
def by_parameters(records: Records) -> list[Figure]:
    """Draw Both against the parameters of the memory, mean over seeds: one line per memory, by identifiers."""
    points = wide_points(records)
    if not points:
        return []
    # Of several budgets use the smallest, which all memories had.
    least = min(point.updates for point in points)
    lines: dict[str, list[WidePoint]] = {}
    for point in points:
        if point.updates == least:
            lines.setdefault(point.group.model, []).append(point)
    inks = colours(lines)
    marks = dict(zip(sorted({point.identifiers for point in points}), cycle(MARKS), strict=False))
    figure, axes = panel(f"{least:,} updates", "parameters of the memory, thousands", "Both (%)", (3.9, 2.9))
    labels = []
    for model in sorted(lines, key=rank):
        thousands = [point.group.first.whole("parameters", "memory") / 1000 for point in lines[model]]
        heights = [100 * point.group.estimate("metrics", "best", "both").mean for point in lines[model]]
        name = lines[model][0].group.short
        curve(axes, thousands, heights, name, inks[model], "-", lw=1.3)
        for point, x, y in zip(lines[model], thousands, heights, strict=True):
            axes.plot([x], [y], marks[point.identifiers], color=inks[model], ms=4.5, gid=belongs(name))
        labels.append((heights[-1], name, inks[model]))
    axes.set_xscale("log")
    axes.set_ylim(-2, 103)
    shapes = [Line2D([], [], color=MUTED, marker=mark, ls="", ms=4.5, label=f"n = {n}") for n, mark in marks.items()]
    axes.legend(handles=shapes, loc="upper right", frameon=False, fontsize=SMALL)
    log_ticks(axes.xaxis, *axes.get_xlim())
    end_labels(axes, labels)
    return [figure]


def _learning(axes: Axes, item: Group, updates: int, longest: int, ink: str) -> tuple[float, str, str]:
    """Draw the mean over seeds; a solved run keeps its last value."""
    steps = item.first.count("steps_per_epoch")
    curves = [[100 * row.number("both") for row in run.parts("metrics", "epochs")] for run in item.runs]
    # Stop at the longest run: solved runs end early, and the budget is only an upper bound.
    epochs = min(updates // steps, longest)
    padded = [line + line[-1:] * (epochs - len(line)) for line in curves]
    means = [sum(values) / len(values) for values in zip(*padded, strict=True)]
    name = item.short
    curve(axes, [steps * (epoch + 1) for epoch in range(epochs)], means, name, ink, "-", lw=1.3)
    return means[-1], name, ink


def _by_width(points: Points, metric: str) -> Figure:
    inks = colours(model for models in points.values() for model in models)
    figure = Figure(figsize=(1.0 + 1.7 * len(points), 2.5))
    row = figure.subplots(1, len(points), sharey=True, squeeze=False)[0]
    for axes, (size, models) in zip(row, sorted(points.items()), strict=True):
        axes.set_title(f"{metric.capitalize()}, n = {size}", pad=8)
        axes.set_xlabel("total width")
        labels = [_line(axes, models[model], metric, model, inks[model]) for model in sorted(models, key=rank)]
    row[0].set_ylim(-2, 103)
    row[0].set_ylabel("accuracy (%)")
    end_labels(row[-1], labels)
    return figure


def _line(axes: Axes, by_width: dict[int, list[Record]], metric: str, model: str, ink: str) -> tuple[float, str, str]:
    """Draw one model; return its height at the largest width, its name and its colour."""
    widths = sorted(by_width)
    values = [[run.number("metrics", "best", metric) for run in by_width[width]] for width in widths]
    heights = [100 * estimate(of_seeds).mean for of_seeds in values]
    axes.set_xscale("log", base=2)
    name = short(model, by_width[widths[-1]][0])
    curve(axes, widths, heights, name, ink, "-o", ms=3.5)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    return heights[-1], name, ink
