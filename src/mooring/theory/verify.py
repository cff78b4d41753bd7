"""All claims, one run of them, and its record."""

from __future__ import annotations

import difflib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mooring.theory import (
    addressing,
    anchor,
    capacity,
    construction,
    cost,
    counted,
    distortion,
    handset,
    homogeneous,
    multiset,
)
from mooring.theory.claim import Claim, ClaimResult

# In the paper's order, except that the two on whole modules come after both halves they need.
CLAIMS: tuple[Claim, ...] = (
    *capacity.CLAIMS,
    homogeneous.CLONES,
    *construction.CLAIMS,
    homogeneous.BROADCAST,
    *addressing.CLAIMS,
    *anchor.CLAIMS,
    *multiset.CLAIMS,
    *counted.CLAIMS,
    *handset.CLAIMS,
    *cost.CLAIMS,
    *distortion.CLAIMS,
)


def labels() -> tuple[str, ...]:
    """The labels of all claims, in the order they are run."""
    return tuple(claim.label for claim in CLAIMS)


def select(wanted: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """The claims with the given labels; a label without its dotted part stands for all its parts.

    Example:
        >>> [claim.label for claim in select(["prop:mass"])]
        ['prop:mass', 'prop:mass.float32']
    """
    if wanted is None:
        return CLAIMS
    known = {name for label in labels() for name in (label, label.split(".")[0])}
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"Known labels: {', '.join(labels())}."
            raise ValueError(f"verify: no claim is labelled {name!r}; {hint}")
    return tuple(claim for claim in CLAIMS if claim.label in wanted or claim.label.split(".")[0] in wanted)


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
    """Check the paper's claims, each with its controls.

    Args:
        labels: which claims; None means all of them. A label without its dotted part means all its parts.
        seed: everything random is a function of the seed and the label.
        instances: the number of instances of every claim, instead of its own.
        progress: called with each result as soon as it is known.

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
