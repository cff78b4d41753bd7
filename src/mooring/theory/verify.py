"""Run the claims and keep what was measured."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mooring.theory.claim import ClaimResult
from mooring.theory.registry import select

PACKAGES = ("mooring", "torch", "torch_geometric", "numpy")


@dataclass(frozen=True)
class Verification:
    """The results of one run of the claims."""

    results: tuple[ClaimResult, ...]
    seed: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every claim held and every control was rejected."""
        return all(result.ok for result in self.results)

    def to_record(self) -> dict[str, Any]:
        """The run as a JSON-ready record of kind ``verify``."""
        return {
            "schema": 1,
            "kind": "verify",
            "seed": self.seed,
            "passed": self.passed,
            "wall_seconds": self.seconds,
            "claims": [result.to_record() for result in self.results],
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        }


def verify(
    labels: Sequence[str] | None = None,
    seed: int = 0,
    *,
    instances: int | None = None,
    progress: Callable[[ClaimResult], None] | None = None,
) -> Verification:
    """Check the paper's claims, each beside its control.

    Args:
        labels: which claims; None means all of them. A label without its dotted part means all its parts.
        seed: everything random is a function of it and of the label.
        instances: ask every claim for this many instances instead of its own number.
        progress: called with each result as it comes.

    Example:
        >>> verify(["prop:onehot"]).passed
        True
    """
    start = time.perf_counter()
    results = []
    for claim in select(labels):
        results.append(claim.run(seed, instances))
        if progress is not None:
            progress(results[-1])
    return Verification(tuple(results), seed, time.perf_counter() - start)
