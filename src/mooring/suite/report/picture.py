"""A figure as files and as inline SVG, with the values of its curves for the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mooring.suite.files import write_atomic
from mooring.suite.report.drawing import CURVE, INK, PART, RC

Draw = TypeVar("Draw", bound=Callable[..., Any])
SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
# Begins the id of the frame of a pair of axes.
FRAME = "frame:"
NUMBER = re.compile(r"-?\d+\.\d{2,}")
GEOMETRY = ("d", "x", "y", "width", "height", "transform", "points", "viewBox")
# The page sets the font; the other two are defaults.
NEEDLESS = {"font-family", "font-style", "font-variant"}


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
            mark(panel)
            svg = _bytes(panel, "svg", fonts="none").decode()
            drawings.append(inline(svg, panel, f"{self.title}, {part + 1}", INK))
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
    styled: Draw = mpl.rc_context(RC)(draw)
    return styled


def inline(svg: str, figure: Figure, name: str, ink: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the SVG of a figure as markup for a page, and for each pair of axes its place and the values of curves.

    Args:
        svg: the SVG that matplotlib wrote, with text as text.
        figure: the figure that it was written from.
        name: the label for screen readers.
        ink: the colour to replace by that of the page.
    """
    # The text comes from matplotlib, which escapes the names in it.
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("metadata", "style")):
                parent.remove(child)
    frames: dict[int, list[float]] = {}
    for element in root.iter():
        _plain(element, ink, frames)
    natural = [float(value) for value in root.attrib["viewBox"].split()[2:]]
    wide, high = (f"{value * 4 / 3:.0f}" for value in natural)
    root.attrib.clear()
    box = f"0 0 {natural[0]:.1f} {natural[1]:.1f}"
    root.attrib.update({"viewBox": box, "width": wide, "height": high, "role": "img", "aria-label": name})
    ElementTree.register_namespace("", SVG[1:-1])
    charts = [_chart(axes, frames[place]) for place, axes in enumerate(figure.axes) if place in frames]
    return ElementTree.tostring(root, encoding="unicode"), charts


def mark(figure: Figure) -> None:
    """Name the frames of the axes, so that their places can be found in the SVG."""
    for place, axes in enumerate(figure.axes):
        axes.patch.set_gid(f"{FRAME}{place}")


def _plain(element: ElementTree.Element, ink: str, frames: dict[int, list[float]]) -> None:
    """Remove styles, needless ids and invisible digits from an element."""
    attributes = element.attrib
    for rule in filter(None, (part.strip() for part in attributes.pop("style", "").split(";"))):
        key, _, value = rule.partition(":")
        if key.strip() not in NEEDLESS:
            attributes[key.strip()] = value.strip().replace(ink, "currentColor")
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
