"""The rate-distortion curve as a figure, with what trained memories reach drawn into it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.theory.bounds import required_bits
from mooring.theory.distortion import (
    label_recovery_ceiling,
    recovery_by_codebook,
    recovery_by_table,
    recovery_ceiling,
)
from mooring.theory.series import Series


@dataclass(frozen=True)
class TrainedPoint:
    """What a trained memory reached: its raw budget in bits and the share of labels it recovered."""

    name: str
    bits: float
    recovery: float


# Global states of the models that have no slots; every other model has as many as its config says.
GLOBAL_STATES = {"mpnn": 0, "none": 0, "vn": 1, "vn-sum": 1, "vn-max": 1}


def trained_points(
    records: Sequence[Mapping[str, Any]], n: int, *, bits_per_coordinate: int = 32
) -> list[TrainedPoint]:
    """The points of run records of the permutation task with ``n`` identifiers; other records are skipped.

    The budget is that of the complete transcript, as in the proof of thm:lower: the global states, and the centres'
    states in every local layer. Floats make it a raw budget, far above what a network uses.

    Args:
        records: run records, already read.
        n: identifiers of the curve.
        bits_per_coordinate: bits of one coordinate of a state.
    """
    points = []
    for record in records:
        config = record.get("config", {})
        if record.get("task") != "two-radius-permutation" or config["num_identifiers"] != n:
            continue
        states = GLOBAL_STATES.get(record["model"], config["slots"]) + config["layers"] * config["num_centres"]
        bits = float(states * config["channels"] * bits_per_coordinate)
        points.append(TrainedPoint(str(record["model"]), bits, float(record["metrics"]["best"]["label"])))
    return points


def distortion_series(n: int, points: Sequence[TrainedPoint] = ()) -> Series:
    """Recovery over budget: ceiling, random codebook, stored table, and trained memories as single points.

    Trained memories are drawn at their raw budget. Where one has more than twice the bits it needs, the axis is
    logarithmic and starts at one bit.
    """
    need = required_bits(n)
    wide = any(point.bits > 2 * need for point in points)
    steps = (need ** (step / 40) if wide else need * step / 40 for step in range(45))
    grid = sorted({*steps, *(point.bits for point in points)})
    lines: list[tuple[str, list[float | None]]] = [
        ("ceiling (no scheme does better)", [recovery_ceiling(n, bits) for bits in grid]),
        ("random codebook", [recovery_by_codebook(n, bits) for bits in grid]),
        ("stored table and guesses", [recovery_by_table(n, bits) for bits in grid]),
    ]
    for name in dict.fromkeys(point.name for point in points):
        best: dict[float, float] = {}
        for point in points:
            if point.name == name:
                best[point.bits] = max(point.recovery, best.get(point.bits, 0.0))
        lines.append((f"trained: {name}", [best.get(bits) for bits in grid]))
    return Series(
        title=f"Average recovery below the bound, n={n} (log2 n! = {need:.1f} bits)",
        x=grid,
        lines=lines,
        xlabel="bits of the memory",
        ylabel="share of labels recovered",
        log="x" if wide else "",
    )


def label_series(labels: int) -> Series:
    """The same for independent labels over an alphabet, by the bits of one label."""
    need = math.log2(labels)
    grid = [need * step / 40 for step in range(45)]
    share = [min(1.0, bits / need) for bits in grid]
    return Series(
        title=f"Average recovery of independent labels, {labels} of them",
        x=grid,
        lines=(
            ("ceiling (rate-distortion function)", [label_recovery_ceiling(labels, bits) for bits in grid]),
            ("stored table and guesses", [stored + (1 - stored) / labels for stored in share]),
        ),
        xlabel="bits per label",
        ylabel="share of labels recovered",
    )
