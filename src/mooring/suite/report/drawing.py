"""The style of all figures: one size scale, one palette, labels beside their lines.

Figures are drawn without a background, in one fixed ink colour that becomes `currentColor` in the page, so the same
drawing is black on white on screen and on paper, and white on black.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mooring.suite.report.groups import KNOWN, Group, rank

if TYPE_CHECKING:  # imported on first use: chapters with tables import this module too
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# The ids of a curve in a drawing, and of what is hidden together with it.
CURVE, PART = "curve:", "part:"
INK = "#10151c"
MUTED = "#7a828c"
SMALL, NORMAL, LARGE = 7.5, 8.5, 9.5
PANEL = (3.0, 2.4)

# Okabe and Ito's palette, told apart by people with any of the common colour deficiencies, with Paul Tol's wine red
# and a grey.
PALETTE = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#7f7f7f")

RC = {
    "font.family": "DejaVu Sans",
    "font.size": NORMAL,
    "axes.titlesize": LARGE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.hashsalt": "mooring",
    "axes.formatter.useoffset": False,
}


@cache
def heat() -> Colormap:
    """Return a colour map that fades to nothing at zero, so that an empty cell is the page itself, light or dark."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("heat", [(0.0, 0.447, 0.698, 0.04), (0.0, 0.447, 0.698, 1.0)])


def panel(title: str, xlabel: str = "", ylabel: str = "", size: tuple[float, float] = PANEL) -> tuple[Figure, Axes]:
    """Return an empty panel, made without pyplot, so that nothing is shown and no global list keeps it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    axes = figure.add_subplot()
    # Titles and labels hold names from records, in which a dollar does not start a formula.
    axes.set_title(title, pad=8, parse_math=False)
    axes.set_xlabel(xlabel, parse_math=False)
    axes.set_ylabel(ylabel, parse_math=False)
    return figure, axes


def colours(models: Iterable[str]) -> dict[str, str]:
    """Return a colour for each model in the order of the palette: the paper's last model first, other models last.

    >>> list(colours(["vn", "my-own", "anchored"]))
    ['anchored', 'vn', 'my-own']
    """
    ranked = sorted(set(models), key=rank)
    unknown = [model for model in ranked if model.rpartition("+")[2] not in KNOWN]
    order = [*(model for model in reversed(ranked) if model not in unknown), *unknown]
    return {model: PALETTE[place % len(PALETTE)] for place, model in enumerate(order)}


def inked(groups: Sequence[Group], *keys: str) -> list[tuple[Group, str]]:
    """Return the groups whose runs have a field, each with its colour, which does not depend on the field."""
    inks = colours(group.model for group in groups)
    return [(group, inks[group.model]) for group in groups if not keys or group.has(*keys)]


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Set the ticks of a logarithmic axis: powers of ten, and 2 and 5 between them if few powers are visible."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = math.log10(high / low)
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=7))
    axis.set_minor_locator(NullLocator())
    if decades < 2.5:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def curve(
    axes: Axes, x: Sequence[float], y: Sequence[float], name: str, ink: str, style: str = "-", **options: Any
) -> None:
    """Draw a line that the page can label, inspect and hide."""
    axes.plot(x, y, style, color=ink, gid=f"{CURVE}{name}", **options)


def belongs(name: str) -> str:
    """Return the gid of the band, the dots and the label of a curve, which the page hides together with it."""
    return f"{PART}{name}"


def end_labels(axes: Axes, labels: Iterable[tuple[float, str, str]], gap: float = 10.0) -> None:
    """Write (height, text, colour) to the right of the axes, moved apart until none overlap.

    Args:
        axes: drawn axes with their final limits; heights are in their data coordinates.
        gap: least distance between two labels, in points.
    """
    height = axes.get_window_extent().height * 72 / axes.figure.dpi
    to_points = axes.transData + axes.transAxes.inverted()
    low = axes.get_xlim()[0]
    wanted = sorted((to_points.transform((low, y))[1] * height, text, ink) for y, text, ink in labels)
    places = spread([min(max(place, 0.0), height) for place, _, _ in wanted], gap, height)
    for (start, text, ink), end in zip(wanted, places, strict=True):
        label = axes.annotate(
            text,
            xy=(1.015, min(max(start / height, 0.0), 1.0)),
            xytext=(1.075, end / height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=ink,
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
            parse_math=False,
            arrowprops={"arrowstyle": "-", "color": ink, "lw": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
        )
        for part in filter(None, (label, label.arrow_patch)):
            part.set_gid(belongs(text.replace("\n", " ")))


def spread(places: list[float], gap: float, height: float) -> list[float]:
    """Return sorted places moved as little as needed to be `gap` apart, inside the height if there is room.

    >>> spread([0.0, 1.0, 50.0], 10.0, 100.0)
    [0.0, 10.0, 50.0]
    >>> spread([99.0, 100.0], 10.0, 100.0)
    [90.0, 100.0]
    """
    moved: list[float] = []
    for place in places:
        moved.append(place if not moved else max(place, moved[-1] + gap))
    limit = max(height, gap * (len(moved) - 1))
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - gap
    return moved
