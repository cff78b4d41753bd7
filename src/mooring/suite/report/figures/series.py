"""The generic figure: lines over a common axis, as the verify and bench records carry them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mooring.suite.report.figures.style import CYCLE, Picture, end_labels, log_ticks, panel, styled
from mooring.suite.report.records import Record, RecordError


@styled
def series(name: str, title: str, caption: str, parts: Sequence[Record]) -> Picture:
    """One panel for each part, an object with x, lines (label and y), xlabel, ylabel and log ("", "x", "y" or "xy")."""
    return Picture(name, title, caption, tuple(_panel(part) for part in parts))


def _panel(part: Record) -> Figure:
    x = part.numbers("x")
    if not x:
        raise part.error("field 'x' of a series is empty.")
    log = part.find("log") or ""
    figure, axes = panel(_wrap(str(part.find("title") or "")), part.text("xlabel"), part.text("ylabel"), (3.6, 2.7))
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
        ink = CYCLE[position % len(CYCLE)]
        axes.plot([a for a, _ in points], [b for _, b in points], "-o" if len(points) <= 12 else "-", color=ink, ms=3)
        (last, height), end = points[-1], max(x)
        if last != end:  # a line that stops early leads to its label all the same
            axes.plot([last, end], [height, height], ":", color=ink, lw=0.7)
        labels.append((height, _wrap(line.text("label"), 22), ink))
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            log_ticks(axis, *limits)
    lines = max((label.count("\n") + 1 for _, label, _ in labels), default=1)
    end_labels(axes, labels, gap=2 + 9.0 * lines)
    return figure


def _wrap(text: str, width: int = 40) -> str:
    """Text broken into lines no longer than the panel is wide."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
