"""Figures: one style for all of them, and a figure as files or as inline SVG with the values of its curves.

Figures are drawn without a background, in one fixed ink colour that becomes `currentColor` in the page, so the same
drawing is black on white on screen and on paper, and white on black.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree

import numpy as np

from mooring.suite.files import write_atomic
from mooring.suite.report.groups import KNOWN, Group, rank

if TYPE_CHECKING:  # imported on first use: chapters with tables import this module too
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Draw = TypeVar("Draw", bound=Callable[..., Any])
# The ids of a curve in a drawing, of what is hidden together with it, and of the frame of a pair of axes.
CURVE, PART, FRAME = "curve:", "part:", "frame:"
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

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d{2,}")
GEOMETRY = ("d", "x", "y", "width", "height", "transform", "points", "viewBox")
# The page sets the font; the other two are defaults.
NEEDLESS = {"font-family", "font-style", "font-variant"}


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


@dataclass(frozen=True)
class Picture:
    """A figure of the page: panels side by side or, on a narrow screen, below each other.

    Args:
        name: its name in links and files.
        title: its heading.
        caption: what is drawn and what to look for, in two sentences.
        panels: drawings of at most about four inches, so that a phone shows them at reading size.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Figure, ...]

    @property
    def slug(self) -> str:
        """The name made safe for file names and anchors."""
        return re.sub(r"[^\w,=+-]+", "-", self.name)

    def drawings(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """Return the panels as inline SVG in the ink of the page, each with the values of its curves."""
        drawings = []
        for part, panel in enumerate(self.panels):
            # So that the places of the axes can be found in the SVG.
            for place, axes in enumerate(panel.axes):
                axes.patch.set_gid(f"{FRAME}{place}")
            svg = _bytes(panel, "svg", fonts="none").decode()
            drawings.append(_inline(svg, panel, f"{self.title}, {part + 1}"))
        return drawings

    def _repr_html_(self) -> str:
        """Return the panels side by side and the caption, for a notebook."""
        panels = "".join(svg for svg, _ in self.drawings())
        return f"<h4>{escape(self.title)}</h4><div>{panels}</div><p>{escape(self.caption)}</p>"

    def write(self, folder: Path, suffix: str = "svg") -> list[Path]:
        """Write each panel to a file, on white."""
        written = []
        for part in range(len(self.panels)):
            number = f"-{part + 1}" if len(self.panels) > 1 else ""
            path = folder / f"{self.slug}{number}.{suffix}"
            write_atomic(path, self.drawn(part, suffix))
            written.append(path)
        return written

    def drawn(self, part: int, suffix: str = "svg") -> bytes:
        """Return one panel as the content of a file, on white."""
        return _bytes(self.panels[part], suffix, facecolor="white")


def in_style(draw: Draw) -> Draw:
    """Return the function, drawing in the style of the report."""
    import matplotlib as mpl

    styled: Draw = mpl.rc_context(RC)(draw)
    return styled


def _inline(svg: str, figure: Figure, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the SVG of a figure as markup for a page, and for each pair of axes its place and the values of curves.

    Args:
        svg: the SVG that matplotlib wrote of the figure, with text as text.
        name: the label for screen readers.
    """
    # The text comes from matplotlib, which escapes the names in it.
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("metadata", "style")):
                parent.remove(child)
    frames: dict[int, list[float]] = {}
    for element in root.iter():
        _plain(element, frames)
    natural = [float(value) for value in root.attrib["viewBox"].split()[2:]]
    wide, high = (f"{value * 4 / 3:.0f}" for value in natural)
    root.attrib.clear()
    box = f"0 0 {natural[0]:.1f} {natural[1]:.1f}"
    root.attrib.update({"viewBox": box, "width": wide, "height": high, "role": "img", "aria-label": name})
    ElementTree.register_namespace("", SVG[1:-1])
    charts = [_chart(axes, frames[place]) for place, axes in enumerate(figure.axes) if place in frames]
    return ElementTree.tostring(root, encoding="unicode"), charts


def _plain(element: ElementTree.Element, frames: dict[int, list[float]]) -> None:
    """Remove styles, needless ids and invisible digits from an element."""
    attributes = element.attrib
    for rule in filter(None, (part.strip() for part in attributes.pop("style", "").split(";"))):
        key, _, value = rule.partition(":")
        if key.strip() not in NEEDLESS:
            attributes[key.strip()] = value.strip().replace(INK, "currentColor")
    if LINK in attributes:
        attributes["href"] = attributes.pop(LINK)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for key in GEOMETRY:
        if key in attributes:
            attributes[key] = " ".join(NUMBER.sub(lambda number: f"{float(number[0]):.1f}", attributes[key]).split())
    named = attributes.get("id", "")
    if named.startswith(FRAME):
        corners = [float(value) for value in re.findall(r"-?[\d.]+", element[0].attrib["d"])]
        x, y = corners[0::2], corners[1::2]
        frames[int(named.removeprefix(FRAME))] = [round(v, 1) for v in (min(x), min(y), max(x), max(y))]
    if named.startswith((CURVE, PART)):
        attributes["data-curve"] = named.partition(":")[2]
    # Ids that nothing refers to would only be the same in every drawing of the page.
    if element.tag == f"{SVG}g":
        attributes.pop("id", None)
    if element.tag not in (f"{SVG}text", f"{SVG}tspan"):
        element.text = None
    element.tail = None


def _chart(axes: Axes, frame: list[float]) -> dict[str, Any]:
    """Return the place of a pair of axes, its limits and its curves."""
    curves = [
        {
            "name": str(line.get_gid()).removeprefix(CURVE),
            "ink": line.get_color(),
            "x": [_short(value) for value in np.asarray(line.get_xdata())],
            "y": [_short(value) for value in np.asarray(line.get_ydata())],
        }
        for line in axes.lines
        if (line.get_gid() or "").startswith(CURVE)
    ]
    scales = {
        name: [*map(float, axis.get_view_interval()), axis.get_scale() == "log"]
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis))
    }
    return {"frame": frame, **scales, "label": axes.get_xlabel(), "curves": curves}


def _short(value: Any) -> float | int:
    shown = float(f"{float(value):.5g}")
    return int(shown) if shown.is_integer() else shown


def _bytes(figure: Figure, suffix: str, fonts: str = "path", **options: Any) -> bytes:
    import matplotlib as mpl

    target = io.BytesIO()
    # No date: the same records give the same page, byte for byte.
    metadata = {"Date": None} if suffix == "svg" else {}
    with mpl.rc_context({**RC, "svg.fonttype": fonts}), warnings.catch_warnings():
        # The font may lack letters of a name; the table beside the figure shows them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(
            target, format=suffix, bbox_inches="tight", pad_inches=0.04, dpi=160, metadata=metadata, **options
        )
    return target.getvalue()
