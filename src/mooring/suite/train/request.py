"""What to run: a task, a model, a seed, a preset and changes to it, and where the record goes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The generators of all libraries take seeds of 32 bits.
LARGEST_SEED = 2**32 - 1
# More runs than anyone could want; a list of many more would fill the memory.
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class RunRequest:
    """One run.

    Args:
        task: a registered task, or ``module.path:ClassName``.
        preset: one of the task's presets.
        overrides: config fields to change, as values or as text (:func:`mooring.suite.train.parse_overrides`).
        out: folder of the records.
        devices: processes that train this one run together. Each takes its own batches of every step and gradients are
            averaged, so k devices mean a batch k times as large, and a different run.
    """

    task: str
    model: str
    seed: int
    preset: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    out: Path = Path("results")
    devices: int = 1

    def to_json(self) -> str:
        """Return the request as one line of text, for another process."""
        return json.dumps({**dataclasses.asdict(self), "overrides": dict(self.overrides), "out": str(self.out)})

    @classmethod
    def from_json(cls, text: str) -> RunRequest:
        """Read :meth:`to_json` back."""
        content = json.loads(text)
        return cls(**{**content, "out": Path(content["out"])})

    def __str__(self) -> str:
        return f"{self.task} {self.preset} {self.model} seed {self.seed}"


def parse_seeds(text: str) -> list[int]:
    """``"0"``, ``"0,3"`` or ``"0-4"`` -> seeds.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first_text, dash, last_text = part.partition("-")
        try:
            first, last = int(first_text), int(last_text if dash else first_text)
        except ValueError:
            raise ValueError(f"run: --seeds is {text!r}; expected numbers as in 0, 0,3 or 0-4.") from None
        if last < first:
            raise ValueError(
                f"run: --seeds is {text!r}; {part.strip()} counts down and is empty. Write {last}-{first}."
            )
        if last > LARGEST_SEED or last - first >= MOST_SEEDS:
            raise ValueError(
                f"run: --seeds is {text!r}; expected seeds up to {LARGEST_SEED}, {MOST_SEEDS:,} of them at most."
            )
        seeds += range(first, last + 1)
    return seeds
