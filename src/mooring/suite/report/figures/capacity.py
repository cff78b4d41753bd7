"""Accuracy of the permutation task over slots and width, with the capacity bound drawn in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mooring.suite.report import paper
from mooring.suite.report.figures.style import CYCLE, HEAT, INK, SMALL, Picture, panel, styled
from mooring.suite.report.records import Record
from mooring.suite.report.settings import whole_setting
from mooring.suite.report.stats import estimate

# Bits per coordinate and the dashes of its line; a float holds 32 at most.
BITS = {1: "-", 4: "--", 32: ":"}


@styled
def capacity(runs: Sequence[Record]) -> Picture | None:
    """Label accuracy by slots and width, one panel per model and size; lines mark slots * width * bits = log2 n!."""
    cells: dict[tuple[str, str, int], dict[tuple[int, int], list[float]]] = {}
    for run in runs:
        place = (whole_setting(run, "slots"), whole_setting(run, "channels"))
        key = (run.preset, run.model, whole_setting(run, "num_identifiers"))
        cells.setdefault(key, {}).setdefault(place, []).append(run.number("metrics", "best", "label"))
    panels = []
    for (_, model, size), values in sorted(cells.items()):
        slots, widths = (sorted({place[axis] for place in values}) for axis in (0, 1))
        if min(len(slots), len(widths)) < 2:
            continue
        grid = np.full((len(slots), len(widths)), np.nan)
        for (slot, width), accuracies in values.items():
            grid[slots.index(slot), widths.index(width)] = estimate(accuracies).mean
        figure, axes = panel(f"{paper.short(model)}, n = {size}", "width d of a slot", "slots L", (4.0, 3.0))
        across, up = _edges(widths), _edges(slots)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.pcolormesh(across, up, grid, cmap=HEAT, vmin=0, vmax=1)
        for row, slot in enumerate(slots):
            for column, width in enumerate(widths):
                if not math.isnan(grid[row, column]):
                    ink = "white" if grid[row, column] > 0.6 else INK
                    axes.text(
                        width,
                        slot,
                        f"{100 * grid[row, column]:.0f}",
                        color=ink,
                        ha="center",
                        va="center",
                        fontsize=SMALL,
                    )
        needed = math.lgamma(size + 1) / math.log(2)
        for bits, dashes in BITS.items():
            line = [needed / bits / width for width in across]
            axes.plot(across, line, color=CYCLE[1], ls=dashes, label=f"b = {bits}")
        axes.legend(
            title="L d b = log₂ n!", loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, title_fontsize=SMALL
        )
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_yticks(slots, [str(slot) for slot in slots])
        axes.minorticks_off()
        axes.set_xlim(across[0], across[-1])
        axes.set_ylim(up[0], up[-1])
        panels.append(figure)
    if not panels:
        return None
    caption = (
        "Each cell is the label accuracy (%) of memories with L slots of width d on permutations of n labels, and each "
        "line is the bound L d b = log2 n! of thm:lower for b bits per coordinate. Below a line exact recovery is "
        "impossible; how far above it accuracy reaches 100 is a matter of training, which the bound says nothing about."
    )
    return Picture("capacity", "Slots, width and what must fit", caption, tuple(panels))


def _edges(values: Sequence[int]) -> list[float]:
    """Cell borders halfway between neighbours on a logarithmic axis."""
    logs = [math.log2(value) for value in values]
    steps = [(b - a) / 2 for a, b in pairwise(logs)] or [0.5]
    inner = [a + step for a, step in zip(logs, steps, strict=False)][: len(logs) - 1]
    return [2**edge for edge in [logs[0] - steps[0], *inner, logs[-1] + steps[-1]]]
