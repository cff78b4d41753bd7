"""One wide state or many slots on Two-Radius: by identifiers, by width, by parameters and over the updates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from math import log2
from statistics import fmean
from typing import TYPE_CHECKING

from mooring.suite.records import Record, Records
from mooring.suite.report.cells import best, fill, named, seeds
from mooring.suite.report.drawing import MUTED, SMALL, belongs, colours, curve, end_labels, log_ticks, panel
from mooring.suite.report.exhibits import Body, figure, table
from mooring.suite.report.groups import Group, group, rank, short
from mooring.table import ABSENT, Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEADERBOARD = "two-radius-leaderboard"
# Presets: one wide state against many slots, with equal parameters or without.
WIDTH, WIDE = "width", "wide"
BOTH = ("metrics", "best", "both")
# One shape per number of identifiers in a figure.
MARKS = ("o", "s", "^", "D")
# Seeds from here on choose settings and are in no table.
DEVELOPMENT = 100


@table(
    "wide-states",
    task=LEADERBOARD,
    title="One wide state or many slots, without a cap on parameters",
    notes="""
    n identifiers; n slots of width 64, or one state of width 64 n. Accuracies in %{interval}{listed}, at the epoch with
    the best Both. Parameters are those of the memory. Bound: the bits that thm:lower asks of each number of the memory
    for the labels alone, n log2 n in all; a row above 32, the bits of a float, would be ruled out. A run ends when a
    validation has no mistake; the updates are the mean over the solved ones. Settings: learning rates tried at a
    development seed, which is not among the seeds.
    """,
)
def wide_states(records: Records, preset: str, sizes: str = "all", updates: str = "all") -> Body | None:
    """Return one wide state, read in several ways, against slots: by number of identifiers and updates, best first.

    Args:
        records, preset: as in every table.
        sizes, updates: the numbers of identifiers and of updates to show, comma-separated, or ``all``.
    """
    points = wide_points(records) if preset == WIDE else []
    if not points:
        return None
    absent = "table 'wide-states': no run with {}={{}}"
    wanted = named(sizes, sorted({point.identifiers for point in points}), absent.format("sizes"))
    points = [point for point in points if str(point.identifiers) in wanted]
    wanted = named(updates, sorted({point.updates for point in points}), absent.format("updates"))
    points = [point for point in points if str(point.updates) in wanted]
    columns, rows = fill(
        points,
        (Column("Identifiers"), lambda point: str(point.identifiers)),
        (Column("Updates, at most"), lambda point: f"{point.updates:,}"),
        (Column("Memory", left=True), lambda point: point.group.title),
        (Column("Parameters, k"), lambda point: f"{point.thousands:.0f}"),
        (Column("Bound, bits"), lambda point: f"{label_bits(point.group.first):.3f}"),
        *(
            (Column(name.capitalize()), lambda point, name=name: best(point.group, name))
            for name in ("label", "count", "both")
        ),
        (Column("Solved"), lambda point: f"{len(point.solved_after)} of {len(point.group.runs)}"),
        (Column("after updates"), lambda point: f"{fmean(point.solved_after):,.0f}" if point.solved_after else ABSENT),
        (Column("Rate"), lambda point: f"{point.group.first.number('config', 'learning_rate'):g}"),
        (Column("Settings"), lambda point: str(point.tried)),
        (Column("Seeds"), lambda point: seeds(point.group)),
    )
    return Body(columns, rows, groups=[point.group for point in points])


def label_bits(run: Record) -> float:
    """Return the least bits that each number of the memory must hold to distinguish independent labels.

    Paper: ``app:capacity``, ``thm:lower`` for labels that are drawn with repetition: ``n log2 n`` bits in all.
    """
    identifiers = run.count("num_identifiers")
    return identifiers * log2(identifiers) / (run.count("slots") * run.count("channels"))


@dataclass(frozen=True)
class WidePoint:
    """One memory at one number of identifiers and updates, at the rate that was chosen at a development seed."""

    identifiers: int
    updates: int
    group: Group
    tried: int

    @property
    def thousands(self) -> float:
        """Parameters of the memory, in thousands."""
        return self.group.first.whole("parameters", "memory") / 1000

    @property
    def solved_after(self) -> list[int]:
        """Updates of each run that had a validation without a mistake."""
        solved = [run for run in self.group.runs if run.number(*BOTH) == 1.0]
        return [len(run.parts("metrics", "epochs")) * run.count("steps_per_epoch") for run in solved]


def wide_points(records: Records) -> list[WidePoint]:
    """Return points in the order of the table; a setting tried at a development seed only is counted, not shown."""
    settings: dict[tuple[int, int, tuple[str, str]], list[Group]] = {}
    for item in group(records.runs(LEADERBOARD, WIDE), apart=("num_identifiers", "slots", "epochs", "learning_rate")):
        run = item.first
        updates = int(run.number("config", "epochs")) * run.count("steps_per_epoch")
        settings.setdefault((run.count("num_identifiers"), updates, (item.model, item.variant)), []).append(item)
    points = []
    for (identifiers, updates, model), items in settings.items():
        chosen = max(items, key=lambda item: (len(item.runs), item.first.number("config", "learning_rate")))
        runs = tuple(run for run in chosen.runs if run.seed < DEVELOPMENT)
        if runs:
            # The rate of a longer training is the one that the short ones chose.
            tried = {
                item.first.number("config", "learning_rate")
                for (size, _, name), others in settings.items()
                for item in others
                if (size, name) == (identifiers, model)
            }
            points.append(WidePoint(identifiers, updates, Group(chosen.model, chosen.variant, runs), len(tried)))
    return sorted(points, key=lambda point: (point.identifiers, point.updates, -point.group.estimate(*BOTH).mean))


# The runs at each total width, by number of identifiers and model.
Points = dict[int, dict[str, dict[int, Group]]]


@figure(
    "wide-vn",
    task=LEADERBOARD,
    title="One wide state or many slots, equal parameters",
    caption="""
    One virtual node of width M d, returned to its nodes in three ways, and M slots of width d, for n identifiers, with
    the same number of parameters and limit on updates, each point at its better learning rate. The gap between the
    lines at one width is what is lost by not exposing the factorisation.
    """,
)
def by_width(records: Records) -> list[Figure]:
    """Draw Label and Both against total width: two panels, each with one pair of axes per number of identifiers."""
    points: Points = {}
    # Of several learning rates the best is drawn.
    for item in sorted(group(records.runs(LEADERBOARD, WIDTH)), key=lambda item: item.estimate(*BOTH).mean):
        run = item.first
        width = run.count("slots") * run.count("channels")
        points.setdefault(run.count("num_identifiers"), {}).setdefault(run.model, {})[width] = item
    return [_by_width(points, metric) for metric in ("label", "both")] if points else []


@figure(
    "wide-states",
    task=LEADERBOARD,
    title="One wide state or many slots, over the updates",
    caption="""
    Validation accuracy while training, mean over seeds, for n identifiers: n slots of width 64, or one state of width
    64 n that is summed over the nodes and read in five ways. No cap on parameters.
    """,
)
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


@figure(
    "wide-parameters",
    task=LEADERBOARD,
    title="One wide state or many slots, by parameters",
    caption="""
    Best validation accuracy against the parameters of the memory, mean over seeds; the shape of a point is n, the
    number of identifiers. A wide state has n times the width of a slot, so its line runs to the right as n grows.
    """,
)
def by_parameters(records: Records) -> list[Figure]:
    """Draw Both against the parameters of the memory, mean over seeds, one line per memory."""
    from matplotlib.lines import Line2D

    points = wide_points(records)
    if not points:
        return []
    # Of several budgets the shortest, which all memories had.
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
        thousands = [point.thousands for point in lines[model]]
        heights = [100 * point.group.estimate(*BOTH).mean for point in lines[model]]
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
    """Draw the mean over seeds; a run that was solved keeps its last value."""
    steps = item.first.count("steps_per_epoch")
    curves = [[100 * row.number("both") for row in run.parts("metrics", "epochs")] for run in item.runs]
    # No further than any run went: a solved one ends early, and a budget is only a number.
    epochs = min(updates // steps, longest)
    held = [line + line[-1:] * (epochs - len(line)) for line in curves]
    means = [sum(values) / len(values) for values in zip(*held, strict=True)]
    curve(axes, [steps * (epoch + 1) for epoch in range(epochs)], means, item.short, ink, "-", lw=1.3)
    return means[-1], item.short, ink


def _by_width(points: Points, metric: str) -> Figure:
    inks = colours(model for models in points.values() for model in models)
    from matplotlib.figure import Figure

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


def _line(axes: Axes, by_width: dict[int, Group], metric: str, model: str, ink: str) -> tuple[float, str, str]:
    """Draw one model and return its label: the height at the largest width, the name and the colour."""
    widths = sorted(by_width)
    heights = [100 * by_width[width].estimate("metrics", "best", metric).mean for width in widths]
    axes.set_xscale("log", base=2)
    name = short(model, by_width[widths[-1]].first)
    curve(axes, widths, heights, name, ink, "-o", ms=3.5)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    return heights[-1], name, ink
