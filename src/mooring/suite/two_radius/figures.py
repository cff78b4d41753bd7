"""Figures of Two-Radius: the idea, learning curves, effect of copies, and the original task by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mooring.suite.records import Records
from mooring.suite.report.drawing import (
    MUTED,
    PALETTE,
    SMALL,
    belongs,
    colours,
    curve,
    end_labels,
    figure,
    inked,
    log_ticks,
    panel,
)
from mooring.suite.report.groups import short, usual_groups
from mooring.suite.two_radius import maps as _maps  # noqa: F401 (its figures are registered too)
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

COPIES = (1, 2, 3)
ORANGE, BLUE, SKY = PALETTE[0], PALETTE[1], PALETTE[5]
# Smaller differences of states are drawn at the floor, because a logarithmic axis has no zero.
FLOOR, ROUNDING = 1e-8, 1e-5


@figure("idea", task=COUNTED)
def anchor_idea(records: Records) -> list[Figure]:
    """Draw the attention of one slot over two sources repeated r times, without and with an anchor of logit zero.

    All logits are zero, so each node has weight one: r for each source, one for the anchor (eq:anchored).
    """
    panels = []
    for title, anchor in (("Without an anchor", 0.0), ("With an anchor", 1.0)):
        figure, axes = panel(title, "copies of every source r", "share of attention", (3.1, 2.5))
        for copies in COPIES:
            total = 2 * copies + anchor
            bottom = 0.0
            for weight, ink, name in ((copies, BLUE, "a"), (copies, SKY, "b"), (anchor, ORANGE, "anchor")):
                # Draw each copy as one block, so that the repetition is visible.
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


@figure("learning-curves", task=COUNTED)
def learning_curves(records: Records, preset: str) -> list[Figure]:
    """Draw validation accuracy over epochs: the mean over seeds as a line, the range of seeds as a band."""
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


@figure("state-distance", task=COUNTED)
def state_distance(records: Records, preset: str) -> list[Figure]:
    """Draw the largest difference from the state at the first scale, on a logarithmic axis."""
    groups = inked(usual_groups(records, COUNTED, preset), "diagnostics", "state_distance")
    # A single scale has no comparison.
    groups = [(group, ink) for group, ink in groups if len(compared(group.first)) > 1]
    if not groups:
        return []
    title = f"Distance from the r = {compared(groups[0][0].first)[0]} state"
    figure, axes = panel(title, "replication scale r", "largest difference", (3.2, 2.5))
    labels = []
    for group, ink in groups:
        scales = compared(group.first)
        by_run = [run.numbers("diagnostics", "state_distance", "max") for run in group.runs]
        for run, values in zip(group.runs, by_run, strict=True):
            if len(values) != len(scales):
                raise run.error(
                    f"field 'diagnostics.state_distance' has {len(values)} distances but {len(scales)} scales."
                )
        # Skip the first scale: the distance of its state from itself is zero.
        later = range(1, len(scales))
        x = scales[1:]
        for values in by_run:
            heights = [max(values[i], FLOOR) for i in later]
            axes.plot(x, heights, "o", color=ink, alpha=0.45, mew=0, gid=belongs(group.short))
        middle = [sorted(max(values[i], FLOOR) for values in by_run)[len(by_run) // 2] for i in later]
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


@figure("count-by-scale", task=COUNTED)
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


@figure("original-two-radius", task=ORIGINAL)
def accuracy_by_size(records: Records) -> list[Figure]:
    """Draw two panels on the same axes: measured test accuracy by n, and published accuracy at width 1024."""
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
    """Return the row's short name, with its width if the model has rows of several widths."""
    name = row.named.short
    widths = {other.width for other in rows if other.named.short == name}
    return f"{name}, {row.width}" if len(widths) > 1 else name
