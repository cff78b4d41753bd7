"""Heat maps of Two-Radius: which counts are confused, who writes and reads where, and accuracy by slots and width."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.suite.records import Record, Records
from mooring.suite.report.drawing import INK, MUTED, PALETTE, SMALL, heat, panel
from mooring.suite.report.exhibits import figure
from mooring.suite.report.groups import Group, estimate, short, usual_groups
from mooring.suite.two_radius.tables import COUNTED, SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERMUTATION = "two-radius-permutation"
# Every cell of a heat map becomes a path of the drawing, and a page with larger maps would not open.
MOST_CELLS = 512
# Bits per coordinate and the dashes of its line; a float holds 32 at most.
BITS = {1: "-", 4: "--", 32: ":"}


@figure(
    "count-confusion",
    task=COUNTED,
    title="Which counts are confused (preset {preset})",
    caption="""
    Each row shows the predictions for one true count, stronger if more often; the dotted diagonal is the right answer.
    A replication-blind model spreads each row over the counts that one base number can give at the different scales;
    counts that no base number produces leave an empty row.
    """,
)
def count_confusion(records: Records, preset: str) -> list[Figure]:
    """Draw the confusion of counts summed over seeds, each row normalised to one; one panel per model."""
    panels = []
    for group in usual_groups(records, COUNTED, preset):
        if not group.has("diagnostics", "count_confusion"):
            continue
        tables = [matrix(run, "count_confusion", run.items("diagnostics", "count_confusion")) for run in group.runs]
        for run, table in zip(group.runs, tables, strict=True):
            if table.shape != (len(tables[0]), len(tables[0])):
                got = f"{table.shape[0]} rows of {table.shape[1]}"
                raise run.error(
                    f"field 'diagnostics.count_confusion' has {got}, expected a square as large as the others."
                )
        total = np.sum(tables, axis=0)
        rows = total.sum(axis=1, keepdims=True)
        share = np.divide(total, rows, out=np.zeros_like(total), where=rows > 0)
        figure, axes = panel(group.short, "predicted count", "true count", (2.5, 2.5))
        size = len(share)
        edges = np.arange(size + 1) + 0.5
        axes.pcolormesh(edges, edges, share, cmap=heat(), vmin=0, vmax=1)
        axes.plot([0.5, size + 0.5], [0.5, size + 0.5], color=MUTED, lw=0.7, ls=(0, (2, 3)))
        axes.set_aspect("equal")
        ticks = [count for count in range(1, size + 1) if count == 1 or count % 3 == 0]
        axes.set_xticks(ticks)
        axes.set_yticks(ticks)
        axes.tick_params(length=0)
        panels.append(figure)
    return panels


@figure(
    "write-weights",
    task=COUNTED,
    title="Who writes where (preset {preset})",
    caption="""
    Each row is a source identifier, each column a slot; the stronger the colour, the more of the slot's content comes
    from that source (slots are sorted by the source they hold). One full cell per column means one source per slot, so
    that different targets can read different things.
    """,
)
def write_weights(records: Records, preset: str) -> list[Figure]:
    """Draw source identifier against slot, one panel per model."""
    return _weights(usual_groups(records, COUNTED, preset), "write_weights", "source identifier")


@figure(
    "read-weights",
    task=COUNTED,
    title="Who reads where (preset {preset})",
    caption="""
    Each row is a target identifier and shows which slots it reads, with the slots in the order of the write map. Where
    the two maps agree, a target reads the slot that its own source wrote to.
    """,
)
def read_weights(records: Records, preset: str) -> list[Figure]:
    """Draw target identifier against slot, in the slot order of the write."""
    return _weights(usual_groups(records, COUNTED, preset), "read_weights", "target identifier")


@figure(
    "anchor-weights",
    task=COUNTED,
    title="What the anchors measure (preset {preset})",
    caption="""
    Each row is a replication scale, each column a slot, and each cell the share of attention that the slot's private
    anchor would keep. It falls as more copies are written; how far it falls gives the mass (prop:mass).
    """,
)
def anchor_weights(records: Records, preset: str) -> list[Figure]:
    """Draw the weight of each slot's anchor by replication scale."""
    panels = []
    for group in usual_groups(records, COUNTED, preset):
        run = group.first
        if run.find("diagnostics", "anchor_weights") is None:
            continue
        by_scale = run.mapping("diagnostics", "anchor_weights")
        if not all(re.fullmatch(r"[1-9]\d{0,8}", scale) for scale in by_scale):
            raise run.error(f"field 'diagnostics.anchor_weights' has scales {list(by_scale)!r:.80}, expected numbers.")
        scales = sorted(by_scale, key=int)
        weights = matrix(run, "anchor_weights", [by_scale[scale] for scale in scales])
        panels.append(_map(in_slot_order(run, weights), group.short, "scale r", scales, height=1.5))
    return panels


@figure(
    "capacity",
    task=PERMUTATION,
    title="Slots, width and what must fit",
    caption="""
    Each cell is the label accuracy (%) of memories with L slots of width d on permutations of n labels, and each line
    is the bound L d b = log2 n! of thm:lower for b bits per coordinate. Below a line exact recovery is impossible; how
    far above it accuracy reaches 100 is a matter of training, which the bound says nothing about.
    """,
)
def capacity(records: Records) -> list[Figure]:
    """Draw label accuracy by slots and width, one panel per model and size, beside slots * width * bits = log2 n!."""
    cells: dict[tuple[str, str, int], dict[tuple[int, int], list[float]]] = {}
    for run in records.runs(PERMUTATION):
        place = (run.count("slots"), run.count("channels"))
        key = (run.preset, run.model, run.count(SIZE))
        cells.setdefault(key, {}).setdefault(place, []).append(run.number("metrics", "best", "label"))
    panels = []
    for (_, model, size), values in sorted(cells.items()):
        slots, widths = (sorted({place[axis] for place in values}) for axis in (0, 1))
        if min(len(slots), len(widths)) < 2:
            continue
        grid = np.full((len(slots), len(widths)), np.nan)
        for (slot, width), accuracies in values.items():
            grid[slots.index(slot), widths.index(width)] = estimate(accuracies).mean
        figure, axes = panel(f"{short(model)}, n = {size}", "width d of a slot", "slots L", (4.0, 3.0))
        across, up = _edges(widths), _edges(slots)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.pcolormesh(across, up, grid, cmap=heat(), vmin=0, vmax=1)
        for row, slot in enumerate(slots):
            for column, width in enumerate(widths):
                share = grid[row, column]
                if not math.isnan(share):
                    ink = "white" if share > 0.6 else INK
                    axes.text(width, slot, f"{100 * share:.0f}", color=ink, ha="center", va="center", fontsize=SMALL)
        needed = math.lgamma(size + 1) / math.log(2)
        for bits, dashes in BITS.items():
            line = [needed / bits / width for width in across]
            axes.plot(across, line, color=PALETTE[0], ls=dashes, label=f"b = {bits}")
        axes.legend(
            title="L d b = log₂ n!", loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, title_fontsize=SMALL
        )
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_yticks(slots, [str(slot) for slot in slots])
        axes.minorticks_off()
        axes.set_xlim(across[0], across[-1])
        axes.set_ylim(up[0], up[-1])
        panels.append(figure)
    return panels


def in_slot_order(run: Record, weights: np.ndarray) -> np.ndarray:
    """Sort columns by the source that writes most to each slot, so that a one-to-one write shows as a diagonal."""
    rows = run.find("diagnostics", "write_weights")
    if rows is None:
        return weights
    written = matrix(run, "write_weights", rows)
    order = sorted(range(written.shape[1]), key=lambda slot: (int(written[:, slot].argmax()), -written[:, slot].max()))
    return weights[:, order] if len(order) == weights.shape[1] else weights


def matrix(run: Record, name: str, rows: Any) -> np.ndarray:
    """Return a diagnostic as an array; RecordError if rows are ragged or hold anything but finite numbers."""
    try:
        values = np.array(rows, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise run.error(f"field 'diagnostics.{name}' is not a table of numbers ({error}).") from error
    if values.ndim != 2:
        raise run.error(f"field 'diagnostics.{name}' has {values.ndim} axes, expected rows and columns.")
    if not 1 <= min(values.shape) <= max(values.shape) <= MOST_CELLS:
        got = f"{values.shape[0]} rows of {values.shape[1]}"
        raise run.error(f"field 'diagnostics.{name}' has {got}, expected 1 to {MOST_CELLS} of each.")
    if not np.isfinite(values).all():
        raise run.error(f"field 'diagnostics.{name}' holds something other than finite numbers.")
    return values


def _weights(groups: Sequence[Group], field: str, rows: str) -> list[Figure]:
    panels = []
    for group in groups:
        run = group.first
        if run.find("diagnostics", field) is not None:
            weights = matrix(run, field, run.find("diagnostics", field))
            panels.append(_map(in_slot_order(run, weights), group.short, rows))
    return panels


def _map(
    weights: np.ndarray, title: str, ylabel: str, rows: Sequence[str] | None = None, height: float = 2.9
) -> Figure:
    figure, axes = panel(title, "slot", ylabel, (3.3, height))
    mesh = axes.pcolormesh(weights, cmap=heat(), vmin=0, vmax=max(float(weights.max()), 1e-12))
    axes.invert_yaxis()
    down, across = (range(0, number, max(1, number // 6)) for number in weights.shape)
    if rows:
        axes.set_yticks([place + 0.5 for place in range(len(rows))], rows)
    else:
        axes.set_yticks([place + 0.5 for place in down], [str(place + 1) for place in down])
    axes.set_xticks([place + 0.5 for place in across], [str(place + 1) for place in across])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, pad=0.03, fraction=0.05, aspect=12 if height < 2 else 20)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    return figure


def _edges(values: Sequence[int]) -> list[float]:
    """Return cell borders halfway between neighbours on a logarithmic axis."""
    logs = [math.log2(value) for value in values]
    steps = [(b - a) / 2 for a, b in pairwise(logs)] or [0.5]
    inner = [a + step for a, step in zip(logs, steps, strict=False)][: len(logs) - 1]
    return [2**edge for edge in [logs[0] - steps[0], *inner, logs[-1] + steps[-1]]]
