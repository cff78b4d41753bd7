"""Heat maps of the write, anchor and read weights of one seed, slots in one common order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mooring.suite.report.figures.style import HEAT, SMALL, Picture, panel, styled
from mooring.suite.report.groups import Group
from mooring.suite.report.records import Record

# Every cell becomes a path of the drawing, so a page of larger maps would not open.
MOST_CELLS = 512


@styled
def write_weights(groups: Sequence[Group]) -> Picture | None:
    """Source identifier to slot, one panel per model."""
    caption = (
        "Each row is a source identifier, each column a slot; the stronger the colour, the more of the slot's content "
        "comes from that source (slots are sorted by the source they hold). One full cell per column means one source "
        "per slot, so that different targets can read different things."
    )
    return _picture(groups, "write_weights", "Who writes where", "write-weights", "source identifier", caption)


@styled
def read_weights(groups: Sequence[Group]) -> Picture | None:
    """Target identifier to slot, in the slot order of the write."""
    caption = (
        "Each row is a target identifier and shows which slots it reads, with the slots in the order of the write map. "
        "Where the two maps agree, a target reads the slot that its own source wrote to."
    )
    return _picture(groups, "read_weights", "Who reads where", "read-weights", "target identifier", caption)


@styled
def anchor_weights(groups: Sequence[Group]) -> Picture | None:
    """Weight of each slot's anchor by replication scale."""
    panels = []
    for group in groups:
        run = group.first
        if run.find("diagnostics", "anchor_weights") is None:
            continue
        by_scale = run.mapping("diagnostics", "anchor_weights")
        if not all(re.fullmatch(r"[1-9]\d{0,8}", scale) for scale in by_scale):
            raise run.error(f"field 'diagnostics.anchor_weights' has scales {list(by_scale)!r:.80}, expected numbers.")
        scales = sorted(by_scale, key=int)
        order = slot_order(run)
        weights = matrix(run, "anchor_weights", [by_scale[scale] for scale in scales])
        weights = weights[:, order] if len(order) == weights.shape[1] else weights
        figure = _map(weights, group.short, "slot", "scale r", scales, height=1.5)
        panels.append(figure)
    if not panels:
        return None
    caption = (
        "Each row is a replication scale, each column a slot, and each cell the share of attention that the slot's "
        "private anchor would keep. It falls as more copies are written; how far it falls gives the mass (prop:mass)."
    )
    return Picture("anchor-weights", "What the anchors measure", caption, tuple(panels))


def slot_order(run: Record) -> list[int]:
    """Slots sorted by the source that writes most to each, so that a one-to-one write shows as a diagonal."""
    rows = run.find("diagnostics", "write_weights")
    if rows is None:
        return []
    weights = matrix(run, "write_weights", rows)
    return sorted(range(weights.shape[1]), key=lambda slot: (int(weights[:, slot].argmax()), -weights[:, slot].max()))


def matrix(run: Record, name: str, rows: Any) -> np.ndarray:
    """Rows of a diagnostic as an array; RecordError where they are ragged or hold anything but numbers."""
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
        raise run.error(f"field 'diagnostics.{name}' holds something else than finite numbers.")
    return values


def _picture(groups: Sequence[Group], field: str, title: str, name: str, rows: str, caption: str) -> Picture | None:
    panels = []
    for group in groups:
        run = group.first
        found = run.find("diagnostics", field)
        if found is None:
            continue
        weights = matrix(run, field, found)
        order = slot_order(run)
        weights = weights[:, order] if len(order) == weights.shape[1] else weights
        panels.append(_map(weights, group.short, "slot", rows))
    return Picture(name, title, caption, tuple(panels)) if panels else None


def _map(
    weights: np.ndarray, title: str, xlabel: str, ylabel: str, rows: Sequence[str] | None = None, height: float = 2.9
) -> Figure:
    figure, axes = panel(title, xlabel, ylabel, (3.3, height))
    mesh = axes.pcolormesh(weights, cmap=HEAT, vmin=0, vmax=max(float(weights.max()), 1e-12))
    axes.invert_yaxis()
    number = weights.shape[0]
    step = max(1, number // 6)
    places = list(range(0, number, 1 if rows else step))
    axes.set_yticks([place + 0.5 for place in places], [rows[i] if rows else str(i + 1) for i in places])
    step = max(1, weights.shape[1] // 6)
    places = list(range(0, weights.shape[1], step))
    axes.set_xticks([place + 0.5 for place in places], [str(i + 1) for i in places])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, pad=0.03, fraction=0.05, aspect=12 if height < 2 else 20)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    return figure
