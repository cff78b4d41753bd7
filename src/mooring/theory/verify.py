"""The runner of the claims, and the record of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.named import suggest
from mooring.theory import addressing, anchor, capacity, construction, distortion, handset, homogeneous, layer, multiset
from mooring.theory.claim import Claim, ClaimResult

# In the paper's order, except that the two claims on whole modules come after the parts that they need.
CLAIMS: tuple[Claim, ...] = (
    capacity.collision,
    capacity.injective,
    capacity.sampled_collision,
    capacity.label_collision,
    homogeneous.symmetry,
    construction.permutation_table,
    construction.alphabet_table,
    homogeneous.separability,
    addressing.onehot_gate,
    addressing.routing_bounds,
    addressing.codebook_dims,
    addressing.dim_growth,
    addressing.shared_addresses,
    anchor.replication,
    anchor.stacked_replication,
    anchor.segment_position,
    anchor.recovered_mass,
    anchor.float32_mass,
    multiset.injectivity,
    multiset.refinement,
    multiset.coloured_refinement,
    handset.scale_blindness,
    handset.counted_table,
    handset.recalled_labels,
    handset.recalled_counts,
    layer.round_trip_trace,
    layer.attention_cost,
    layer.layer_cost,
    distortion.searched_recovery,
    distortion.stored_recovery,
)


def labels() -> tuple[str, ...]:
    """Return the labels of all claims, in the order in which they run."""
    return tuple(claim.label for claim in CLAIMS)


def select(names: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """Return the claims with the given labels; a label without its dotted suffix selects all its parts.

    Example:
        >>> [claim.label for claim in select(["prop:mass"])]
        ['prop:mass', 'prop:mass.float32']
    """
    if names is None:
        return CLAIMS
    known = {name for label in labels() for name in (label, label.split(".")[0])}
    for name in names:
        if name not in known:
            hint = suggest(name, known, f"the labels are {', '.join(labels())}.")
            raise ValueError(f"verify: no claim is labelled {name!r}; {hint}")
    return tuple(claim for claim in CLAIMS if claim.label in names or claim.label.split(".")[0] in names)


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
        """Return the JSON-serialisable content of a record of kind ``verify``."""
        return {
            "schema": 1,
            "kind": "verify",
            "seed": self.seed,
            "passed": self.passed,
            "wall_seconds": self.seconds,
            "claims": [result.to_record() for result in self.results],
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
        labels: labels of the claims to check; all if None. A label without its dotted suffix selects all its parts.
        seed: seed of all randomness, together with each label.
        instances: number of instances of every claim; the claim's default if None.
        progress: called with each result as soon as it is available.

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
