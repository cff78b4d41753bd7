"""All checked claims, in the paper's order except for the two on whole modules, which need both halves of it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mooring.theory import (
    addressing,
    anchor,
    capacity,
    construction,
    cost,
    counted,
    module,
    multiset,
    recovery,
    replication,
    separable,
    symmetry,
)
from mooring.theory.claim import Claim

CLAIMS: tuple[Claim, ...] = (
    *capacity.CLAIMS,
    *symmetry.CLAIMS,
    *construction.CLAIMS,
    *separable.CLAIMS,
    *addressing.CLAIMS,
    *replication.CLAIMS,
    *anchor.CLAIMS,
    *multiset.CLAIMS,
    *counted.CLAIMS,
    *module.CLAIMS,
    *cost.CLAIMS,
    *recovery.CLAIMS,
)


def labels() -> tuple[str, ...]:
    """The labels of all claims, in the order they are run."""
    return tuple(claim.label for claim in CLAIMS)


def select(wanted: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """The claims of the given labels; a label without its dotted part stands for all its parts.

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
