"""Figures of no single task: the lines of verify and bench records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.named import suggest
from mooring.suite.records import Record, RecordError, Records
from mooring.suite.report.drawing import PALETTE, belongs, curve, end_labels, log_ticks, panel
from mooring.suite.report.exhibits import Panels, figure
from mooring.suite.report.tables import bench_names, bench_record, claims
from mooring.table import wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The caption of a bench record that has none.
CAPTION = (
    "Cost measured in one run, every module on the same tensors. A line that stays below another is cheaper at every "
    "size shown, and a steeper one loses more as graphs grow."
)


def claim_labels(records: Records) -> list[dict[str, str]]:
    """Return the option that chooses a claim, for each claim with lines."""
    return [{"label": label} for label in dict.fromkeys(c.text("label") for c in claims(records) if c.parts("series"))]


@figure(
    "claim",
    record="verify",
    each=claim_labels,
    title="{label}",
    caption="Claim: {statement}. Measured over {instances} instances.",
)
def claim(records: Records, label: str) -> Panels:
    """Return the measurements of one claim."""
    labelled = [claim for claim in claims(records) if claim.text("label") == label]
    if not labelled:
        known = [claim.text("label") for claim in claims(records)]
        hint = suggest(label, known, f"the records have {', '.join(known)}.")
        raise ValueError(f"figure 'claim': label is '{label}'; {hint}")
    return Panels(
        [_series(part) for claim in labelled for part in claim.parts("series")],
        statement=labelled[0].text("statement").rstrip("."),
        instances=f"{labelled[0].whole('instances'):,}",
    )


@figure(
    "bench",
    record="bench",
    each=bench_names,
    title="Cost: {name}",
    caption="{caption}",
)
def bench(records: Records, name: str) -> Panels:
    """Return the lines of one bench record."""
    record = bench_record(records, name)
    caption = record.find("caption") or CAPTION
    return Panels([_series(part) for part in record.parts("series")], caption=caption)


def _series(part: Record) -> Figure:
    """Draw one panel of an object with x, lines (label and y), xlabel, ylabel and log ("", "x", "y" or "xy")."""
    from matplotlib.ticker import MaxNLocator

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
