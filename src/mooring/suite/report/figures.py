"""Figures that belong to no single task: one wide state against slots, and lines that records carry."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mooring.suite.records import Record, RecordError, Records
from mooring.suite.report.boards import LEADERBOARD, WIDTH, wide_points
from mooring.suite.report.drawing import (
    PALETTE,
    Panels,
    belongs,
    colours,
    curve,
    end_labels,
    figure,
    log_ticks,
    panel,
)
from mooring.suite.report.groups import Group, estimate, group, rank, short
from mooring.suite.report.registry import captions
from mooring.suite.report.tables import bench_names, bench_record, claims
from mooring.table import wrap

# The runs at each total width, by number of identifiers and model.
Points = dict[int, dict[str, dict[int, list[Record]]]]


@figure("wide-vn", task=LEADERBOARD)
def by_width(records: Records) -> list[Figure]:
    """Label and Both against total width: two panels, each with one pair of axes per number of identifiers."""
    points: Points = {}
    # Of several learning rates the best is drawn.
    for item in sorted(group(records.runs(LEADERBOARD, WIDTH)), key=_both):
        run = item.first
        width = run.count("slots") * run.count("channels")
        points.setdefault(run.count("num_identifiers"), {}).setdefault(run.model, {})[width] = list(item.runs)
    return [_by_width(points, metric) for metric in ("label", "both")] if points else []


@figure("wide-states", task=LEADERBOARD)
def by_updates(records: Records) -> list[Figure]:
    """Both over the updates, mean over seeds, one panel per number of identifiers; the shortest budget."""
    points = wide_points(records)
    inks = colours(point.group.model for point in points)
    panels = []
    for size in sorted({point.identifiers for point in points}):
        own = [point for point in points if point.identifiers == size]
        least = min(point.updates for point in own)
        figure, axes = panel(f"n = {size}", "updates", "Both (%)", (3.6, 2.7))
        shown = [point.group for point in own if point.updates == least]
        labels = [_learning(axes, item, least, inks[item.model]) for item in shown]
        axes.set_ylim(-2, 103)
        end_labels(axes, labels)
        panels.append(figure)
    return panels


def _learning(axes: Axes, item: Group, updates: int, ink: str) -> tuple[float, str, str]:
    """Draw the mean over seeds; a run that was solved stays where it was."""
    steps = item.first.count("steps_per_epoch")
    curves = [[100 * row.number("both") for row in run.parts("metrics", "epochs")] for run in item.runs]
    epochs = updates // steps
    held = [line + line[-1:] * (epochs - len(line)) for line in curves]
    means = [sum(values) / len(values) for values in zip(*held, strict=True)]
    name = short(item.model, item.first)
    curve(axes, [steps * (epoch + 1) for epoch in range(epochs)], means, name, ink, "-", lw=1.3)
    return means[-1], name, ink


def claim_labels(records: Records) -> list[dict[str, str]]:
    """The option that chooses a claim, for each that carries lines."""
    return [{"label": label} for label in dict.fromkeys(c.text("label") for c in claims(records) if c.parts("series"))]


@figure("claim", record="verify", each=claim_labels)
def claim(records: Records, label: str) -> Panels:
    """What one claim measured."""
    found = [claim for claim in claims(records) if claim.text("label") == label]
    return Panels(
        [_series(part) for claim in found for part in claim.parts("series")],
        statement=found[0].text("statement").rstrip("."),
        instances=f"{found[0].whole('instances'):,}",
    )


@figure("bench", record="bench", each=bench_names)
def bench(records: Records, name: str) -> Panels:
    """The lines of one bench record."""
    record = bench_record(records, name)
    caption = record.find("caption") or captions()["figure bench"].line("usual", {})
    return Panels([_series(part) for part in record.parts("series")], caption=caption)


def _series(part: Record) -> Figure:
    """One panel of an object with x, lines (label and y), xlabel, ylabel and log ("", "x", "y" or "xy")."""
    x = part.numbers("x")
    if not x:
        raise part.error("field 'x' of a series is empty.")
    log = part.find("log") or ""
    title = _lines(str(part.find("title") or ""), 40)
    figure, axes = panel(title, part.text("xlabel"), part.text("ylabel"), (3.6, 2.7))
    if log is True or "y" in str(log):
        axes.set_yscale("log")
    if log is not True and "x" in str(log):
        axes.set_xscale("log")
    labels = []
    if "x" not in str(log) and all(float(value).is_integer() for value in x):
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for position, line in enumerate(part.parts("lines")):
        y = line.numbers("y", gaps=True)
        if len(y) != len(x):
            label = line.text("label")
            raise RecordError(
                f"{part.path}: line '{label}' has {len(y)} values but x has {len(x)}. Give one value per position.",
                part.path,
            )
        points = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
        if not points:
            continue
        ink = PALETTE[position % len(PALETTE)]
        name = line.text("label")
        style = "-o" if len(points) <= 12 else "-"
        curve(axes, [a for a, _ in points], [b for _, b in points], name, ink, style, ms=3)
        (last, height), end = points[-1], max(x)
        if last != end:  # a line that stops early leads to its label all the same
            axes.plot([last, end], [height, height], ":", color=ink, lw=0.7, gid=belongs(name))
        labels.append((height, _lines(name, 22), ink))
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            log_ticks(axis, *limits)
    lines = max((label.count("\n") + 1 for _, label, _ in labels), default=1)
    end_labels(axes, labels, gap=2 + 9.0 * lines)
    return figure


def _lines(text: str, width: int) -> str:
    return "\n".join(wrap(text, width))


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
    """Draw one model; its height at the largest width, its name and its colour."""
    widths = sorted(by_width)
    values = [[run.number("metrics", "best", metric) for run in by_width[width]] for width in widths]
    found = [100 * estimate(of_seeds).mean for of_seeds in values]
    axes.set_xscale("log", base=2)
    name = short(model, by_width[widths[-1]][0])
    curve(axes, widths, found, name, ink, "-o", ms=3.5)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    return found[-1], name, ink


def _both(item: Group) -> float:
    return item.estimate("metrics", "best", "both").mean
