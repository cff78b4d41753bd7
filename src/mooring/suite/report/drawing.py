"""How every figure looks: one size scale, one palette, labels beside the lines they name.

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
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from mooring.suite.files import write_atomic
from mooring.suite.records import Records
from mooring.suite.report.groups import KNOWN, Group, rank
from mooring.suite.report.inline import CURVE, PART, inline, mark
from mooring.suite.report.registry import Build, Entry, Options, register

INK = "#10151c"
MUTED = "#7a828c"
SMALL, NORMAL, LARGE = 7.5, 8.5, 9.5
PANEL = (3.0, 2.4)

# Okabe and Ito's palette, told apart by people with any of the common colour deficiencies, with Paul Tol's wine red
# and a grey.
PALETTE = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#7f7f7f")
# Colour fades to nothing at zero, so an empty cell is the page itself, light or dark.
HEAT = LinearSegmentedColormap.from_list("heat", [(0.0, 0.447, 0.698, 0.04), (0.0, 0.447, 0.698, 1.0)])

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


@dataclass(frozen=True)
class Picture:
    """A figure of the page: panels that stand side by side or, on a narrow screen, below each other.

    Args:
        name: what the figure is called in links and files.
        title: its heading.
        caption: two sentences: what is drawn and what to look for.
        panels: drawings of at most about four inches, so that a phone shows them at reading size.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Figure, ...]

    @property
    def slug(self) -> str:
        """The name as part of a link or file name: a preset or bench record is part of it, and may hold a path."""
        return re.sub(r"[^\w,=+-]+", "-", self.name)

    def drawings(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The panels as inline SVG that takes its ink from the page, each with the values of its curves."""
        found = []
        for part, panel in enumerate(self.panels):
            mark(panel)
            svg = _bytes(panel, "svg", fonts="none").decode()
            found.append(inline(svg, panel, f"{self.title}, {part + 1}", INK))
        return found

    def _repr_html_(self) -> str:
        """For a notebook: the panels side by side, and the caption."""
        panels = "".join(svg for svg, _ in self.drawings())
        return f"<h4>{escape(self.title)}</h4><div>{panels}</div><p>{escape(self.caption)}</p>"

    def write(self, folder: Path, suffix: str = "svg") -> list[Path]:
        """The panels as files of their own, on white."""
        written = []
        for part in range(len(self.panels)):
            number = f"-{part + 1}" if len(self.panels) > 1 else ""
            path = folder / f"{self.slug}{number}.{suffix}"
            write_atomic(path, self.drawn(part, suffix))
            written.append(path)
        return written

    def drawn(self, part: int, suffix: str = "svg") -> bytes:
        """One panel as the content of a file, on white."""
        return _bytes(self.panels[part], suffix, facecolor="white")


class Panels:
    """What a figure's function returns: its panels, and what its caption in `captions.ini` is filled with.

    Args:
        panels: the drawings; without any there is no figure.
        words: what stands for the names in braces of the caption, beside the options.
    """

    def __init__(self, panels: Iterable[Figure], **words: object) -> None:
        self.panels, self.words = tuple(panels), words


def figure(
    name: str, *, task: str = "", record: str = "", each: Callable[[Records], list[dict[str, str]]] | None = None
) -> Callable[[Build], Build]:
    """Register a function of records and options that returns panels, or :class:`Panels`; it draws in this style.

    Args:
        name: what the page and `captions.ini` call it; files and links add its options.
        task: the task whose runs it needs, if any.
        record: the kind of record it needs, if it is not made of runs.
        each: the options it is shown with on the page; every preset of the task if there is an option of this name.
    """

    def add(draw: Build) -> Build:
        styled: Build = mpl.rc_context(RC)(draw)
        return register("figure", name, _drawn, task, record, each)(styled)

    return add


def _drawn(entry: Entry, made: Panels | Sequence[Figure], options: Options) -> Picture | None:
    found = made if isinstance(made, Panels) else Panels(made)
    if not found.panels:
        return None
    words = {**options, **found.words}
    title, caption = (entry.caption.line(field, words) for field in ("title", "caption"))
    return Picture("-".join([entry.name, *options.values()]), title, caption, found.panels)


def panel(title: str, xlabel: str = "", ylabel: str = "", size: tuple[float, float] = PANEL) -> tuple[Figure, Axes]:
    """An empty panel; made without pyplot, so nothing is shown and nothing is kept in a global list."""
    figure = Figure(figsize=size)
    axes = figure.add_subplot()
    # Titles and labels hold names from records, in which a dollar is a dollar and not the start of a formula.
    axes.set_title(title, pad=8, parse_math=False)
    axes.set_xlabel(xlabel, parse_math=False)
    axes.set_ylabel(ylabel, parse_math=False)
    return figure, axes


def colours(models: Iterable[str]) -> dict[str, str]:
    """A colour for each model: the palette from its start, the paper's last model first, models it lacks at the end.

    >>> list(colours(["vn", "my-own", "anchored"]))
    ['anchored', 'vn', 'my-own']
    """
    ranked = sorted(set(models), key=rank)
    own = [model for model in ranked if model.rpartition("+")[2] not in KNOWN]
    order = [*(model for model in reversed(ranked) if model not in own), *own]
    return {model: PALETTE[place % len(PALETTE)] for place, model in enumerate(order)}


def inked(groups: Sequence[Group], *keys: str) -> list[tuple[Group, str]]:
    """The groups whose runs have a field, each with its colour, which does not depend on the field."""
    inks = colours(group.model for group in groups)
    return [(group, inks[group.model]) for group in groups if not keys or group.has(*keys)]


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a logarithmic axis: powers of ten, and 2 and 5 between them where few powers would be visible."""
    decades = math.log10(high / low)
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=7))
    axis.set_minor_locator(NullLocator())
    if decades < 2.5:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def curve(
    axes: Axes, x: Sequence[float], y: Sequence[float], name: str, ink: str, style: str = "-", **options: Any
) -> None:
    """A line that the page names, shows the values of, and can hide."""
    axes.plot(x, y, style, color=ink, gid=f"{CURVE}{name}", **options)


def belongs(name: str) -> str:
    """The gid of what is hidden together with the curve of this name: its band, its dots, its label."""
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
    """Sorted places moved as little as needed to be `gap` apart, kept inside the height where there is room.

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


def _bytes(figure: Figure, suffix: str, fonts: str = "path", **options: Any) -> bytes:
    target = io.BytesIO()
    # No date: the same records give the same page, byte for byte.
    metadata = {"Date": None} if suffix == "svg" else {}
    with mpl.rc_context({**RC, "svg.fonttype": fonts}), warnings.catch_warnings():
        # A name may be in letters that the font lacks; the table beside the figure shows it all the same.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(
            target, format=suffix, bbox_inches="tight", pad_inches=0.04, dpi=160, metadata=metadata, **options
        )
    return target.getvalue()
