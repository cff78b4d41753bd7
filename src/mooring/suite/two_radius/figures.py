"""Figures of Two-Radius: the idea, learning curves, what copies change, and the original task as it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mooring.suite.records import Records
from mooring.suite.report.drawing import (
    MUTED,
    PALETTE,
    SMALL,
    belongs,
    colours,
    curve,
    end_labels,
    inked,
    log_ticks,
    panel,
)
from mooring.suite.report.exhibits import figure
from mooring.suite.report.groups import short, usual_groups
from mooring.suite.two_radius.tables import (
    COUNTED,
    ORIGINAL,
    PUBLISHED_ORIGINAL,
    PUBLISHED_SIZES,
    Line,
    Reference,
    compared,
    measured,
    scales_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COPIES = (1, 2, 3)
ORANGE, BLUE, SKY = PALETTE[0], PALETTE[1], PALETTE[5]
# Differences of states below the floor are drawn on it: a logarithmic axis has no zero.
FLOOR, ROUNDING = 1e-8, 1e-5


@figure(
    "idea",
    task=COUNTED,
    title="The idea in one picture",
    caption="""
    A slot attends to two sources, a and b, and both are repeated r times: without an anchor their shares never change,
    so the slot cannot know r. With an anchor of weight one in the same softmax, the anchor's share falls from 1/3 to
    1/5 to 1/7, and 1/share - 1 is the number of nodes that wrote; the library keeps the log-odds of that share, the
    same information, beside the content.
    """,
)
def anchor_idea(records: Records) -> list[Figure]:
    """Draw the attention of one slot over two sources that are each repeated r times, without and with an anchor.

    All logits are zero, so each node has weight one: r for each source, one for the anchor (eq:anchored).
    """
    panels = []
    for title, anchor in (("Without an anchor", 0.0), ("With an anchor", 1.0)):
        figure, axes = panel(title, "copies of every source r", "share of attention", (3.1, 2.5))
        for copies in COPIES:
            total = 2 * copies + anchor
            bottom = 0.0
            for weight, ink, name in ((copies, BLUE, "a"), (copies, SKY, "b"), (anchor, ORANGE, "anchor")):
                # Each copy is one block, so that the picture shows what is repeated.
                for _ in range(max(1, int(weight))) if weight else ():
                    height = weight / total / max(1, int(weight))
                    axes.bar(copies, height, 0.62, bottom, color=ink, edgecolor="white", lw=0.8)
                    bottom += height
                if weight and copies == COPIES[-1]:
                    middle = bottom - weight / total / 2
                    label = f"{name}, 1/{int(total)}" if name == "anchor" else name if anchor else f"{name}, stays 1/2"
                    axes.text(copies + 0.42, middle, label, color=ink, fontsize=SMALL, va="center")
        axes.set_xticks(COPIES)
        axes.set_yticks([0, 0.5, 1])
        axes.set_xlim(0.5, 3.5)
        axes.axhline(0, color=MUTED, lw=0)
        panels.append(figure)
    return panels


@figure(
    "learning-curves",
    task=COUNTED,
    title="Learning curves (preset {preset})",
    caption="""
    Each line is the mean over seeds of the validation accuracy; the band runs from the worst seed to the best, and a
    seed that has stopped keeps its last value. A model at the chance line does no better than a constant guess, and the
    blind ceiling is the most that a model can reach that knows what was written but not how often.
    """,
)
def learning_curves(records: Records, preset: str) -> list[Figure]:
    """Draw validation accuracy over epochs: the mean over seeds as a line, the lowest and highest seed as a band."""
    groups, reference = inked(usual_groups(records, COUNTED, preset)), _reference(records, preset)
    lines = {
        "label": [(reference.label, "chance")],
        "count": [(reference.count, "constant"), (reference.blind, "blind ceiling")],
        "both": [(reference.both, "chance"), (reference.blind, "blind ceiling")],
    }
    panels = []
    for metric, marks in lines.items():
        figure, axes = panel(metric.capitalize(), "epoch", "accuracy (%)", (2.75, 2.3))
        labels = []
        for group, ink in groups:
            epochs, shares = group.curves(metric)
            rows = [[100 * share for share in row] for row in shares]
            mean = [sum(row) / len(row) for row in rows]
            curve(axes, epochs, mean, group.short, ink, zorder=3)
            low, high = [min(row) for row in rows], [max(row) for row in rows]
            axes.fill_between(epochs, low, high, color=ink, alpha=0.2, lw=0, gid=belongs(group.short))
            labels.append((mean[-1], group.short, ink))
        labels += [_mark(axes, 100 * height, f"{name} {100 * height:.1f}", 1.0) for height, name in marks]
        axes.set_ylim(-2, 103)
        axes.margins(x=0.01)
        end_labels(axes, labels)
        panels.append(figure)
    return panels


@figure(
    "state-distance",
    task=COUNTED,
    title="Does the memory change when everything is repeated? (preset {preset})",
    caption="""
    One assignment is rendered at several scales, and the whole global state is compared with its state at the first of
    them; dots are seeds, the line their median. A state that stays below rounding error carries nothing about the
    number of copies, so no decoder behind it can recover the count (prop:replication).
    """,
)
def state_distance(records: Records, preset: str) -> list[Figure]:
    """Draw the largest difference from the state at the first scale; nothing if there is no state."""
    groups = inked(usual_groups(records, COUNTED, preset), "diagnostics", "state_distance")
    # At a single scale there is nothing to compare.
    groups = [(group, ink) for group, ink in groups if len(compared(group.first)) > 1]
    if not groups:
        return []
    title = f"Distance from the r = {compared(groups[0][0].first)[0]} state"
    figure, axes = panel(title, "replication scale r", "largest difference", (3.2, 2.5))
    labels = []
    for group, ink in groups:
        scales = compared(group.first)
        # The distance of the first state from itself is zero, which says nothing.
        x, by_run = scales[1:], []
        for run in group.runs:
            distances = run.numbers("diagnostics", "state_distance", "max")
            if len(distances) != len(scales):
                raise run.error(
                    f"field 'diagnostics.state_distance' has {len(distances)} distances but {len(scales)} scales."
                )
            by_run.append([max(distance, FLOOR) for distance in distances[1:]])
            axes.plot(x, by_run[-1], "o", color=ink, alpha=0.45, mew=0, gid=belongs(group.short))
        middle = [sorted(distances)[len(by_run) // 2] for distances in zip(*by_run, strict=True)]
        curve(axes, x, middle, group.short, ink)
        axes.set_xticks(x)
        labels.append((middle[-1], group.short, ink))
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, FLOOR / 2), max(high, 1.0))
    log_ticks(axes.yaxis, *axes.get_ylim())
    axes.margins(x=0.15)
    end_labels(axes, [*labels, _mark(axes, ROUNDING, "rounding error")])
    return [figure]


@figure(
    "count-by-scale",
    task=COUNTED,
    title="Counting at each scale (preset {preset})",
    caption="""
    How often the exact count is right when every source appears r times its base number, mean over seeds. A model that
    cannot see r gives the same answers at every scale, so what it gains at one scale it loses at another, and its
    expected mean stays at or below the ceiling.
    """,
)
def count_by_scale(records: Records, preset: str) -> list[Figure]:
    """Draw the mean over seeds of the count accuracy at each scale, one line per model."""
    field = ("diagnostics", "count_accuracy_by_scale")
    groups, ceiling = inked(usual_groups(records, COUNTED, preset), *field), 100 * _reference(records, preset).blind
    if not groups:
        return []
    figure, axes = panel("Count accuracy by scale", "replication scale r", "accuracy (%)", (3.2, 2.5))
    labels = []
    for group, ink in groups:
        scales = scales_of(group.first)
        means = [100 * group.estimate(*field, scale).mean for scale in scales]
        curve(axes, [int(scale) for scale in scales], means, group.short, ink, "-o")
        axes.set_xticks([int(scale) for scale in scales])
        labels.append((means[-1], group.short, ink))
    axes.set_ylim(-2, 103)
    axes.margins(x=0.08)
    end_labels(axes, [*labels, _mark(axes, ceiling, f"blind ceiling {ceiling:.1f}")])
    return [figure]


@figure(
    "original-two-radius",
    task=ORIGINAL,
    title="The original task as it grows",
    caption="""
    Every target must fetch one of ten labels through a bottleneck that n sources share. Left, what we measured with
    2,000 updates or fewer; right, the numbers of Mishayev et al. (arXiv 2511.20406), who tune each model: the panels
    are not comparable like for like.
    """,
)
def accuracy_by_size(records: Records) -> list[Figure]:
    """Draw two panels with the same axes: measured test accuracy by n, and the published numbers at width 1024."""
    rows = measured(records.runs(ORIGINAL))
    left = [(row.model, _name(row, rows), row.percentages()) for row in rows]
    right: list[tuple[str, str, Mapping[int, float]]] = [
        (model, short(model), dict(zip(PUBLISHED_SIZES, by_width[1024], strict=True)))
        for model, by_width in PUBLISHED_ORIGINAL.items()
    ]
    inks = colours(model for model, _, _ in (*left, *right))
    panels = []
    for title, lines in (("Measured", left), ("Published, width 1024", right)):
        figure, axes = panel(title, "identifiers n", "accuracy (%)", (3.5, 2.8))
        labels = []
        for model, name, points in lines:
            sizes = sorted(points)
            ink = inks[model]
            curve(axes, sizes, [points[n] for n in sizes], name, ink, "-o", ms=3.5)
            labels.append((points[sizes[-1]], name, ink))
        axes.set_ylim(-2, 103)
        axes.set_xlim(0, max(PUBLISHED_SIZES) * 1.03)
        axes.set_xticks(PUBLISHED_SIZES)
        end_labels(axes, labels)
        panels.append(figure)
    return panels


def _mark(axes: Axes, height: float, text: str, zorder: float = 2.0) -> tuple[float, str, str]:
    """Draw a dashed line across the axes and return its label."""
    axes.axhline(height, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=zorder)
    return height, text, MUTED


def _reference(records: Records, preset: str) -> Reference:
    return Reference.of_run(records.runs(COUNTED, preset)[0])


def _name(row: Line, rows: Sequence[Line]) -> str:
    """Return the short name of a line, with the width if the same model was run at several."""
    name = row.named.short
    widths = {other.width for other in rows if other.named.short == name}
    return f"{name}, {row.width}" if len(widths) > 1 else name
