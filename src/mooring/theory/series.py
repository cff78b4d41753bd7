"""Curves in the one form every figure of the project is drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Series:
    """Lines over one shared axis.

    Args:
        title: heading of the figure.
        x: positions shared by every line.
        lines: label and values of each line; None leaves a gap.
        xlabel: name of the horizontal axis.
        ylabel: name of the vertical axis.
        log: which axes are logarithmic.

    Example:
        >>> Series("squares", (1, 2), (("y", (1.0, 4.0)),), "x", "y").to_record()["lines"]
        [{'label': 'y', 'y': [1.0, 4.0]}]
    """

    title: str
    x: Sequence[float]
    lines: Sequence[tuple[str, Sequence[float | None]]]
    xlabel: str
    ylabel: str
    log: Literal["", "x", "y", "xy"] = ""

    def __post_init__(self) -> None:
        for label, y in self.lines:
            if len(y) != len(self.x):
                raise ValueError(
                    f"Series {self.title!r}: line {label!r} has {len(y)} values but x has {len(self.x)}. "
                    "Give one value per position, None for a gap."
                )

    def to_record(self) -> dict[str, Any]:
        """JSON-ready fields; values that are not finite become gaps."""
        return {
            "title": self.title,
            "x": [float(value) for value in self.x],
            "lines": [{"label": label, "y": [_finite(value) for value in y]} for label, y in self.lines],
            "xlabel": self.xlabel,
            "ylabel": self.ylabel,
            "log": self.log,
        }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
