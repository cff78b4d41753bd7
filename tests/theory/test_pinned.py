"""Digests of the instances that each check draws, so that a change of the draws is noticed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring.theory import CLAIMS
from mooring.theory.addressing import Codebook
from mooring.theory.claim import Claim
from mooring.theory.instances import benchmark_batch
from support import digest
from theory.test_verify import EXPECTED

# By label: calls of subject and controls, and their digest. Not in float32, whose last digits are a machine's own.
SEEN = {
    "thm:lower.tight": (16, "f4621e651bac0bd0"),
    "app:capacity.symmetry": (14, "8000423caf3c95de"),
    "thm:upper": (77, "695ff012a4fc31bf"),
    "app:capacity.alphabet": (34, "538d566fad811095"),
    "prop:separable": (80, "a1679fbcb508af19"),
    "prop:onehot": (10, "8240b594da80bd2b"),
    "prop:routing": (60, "47d2314f1c231e9a"),
    "prop:routing.codebook": (60, "100f03aba2811839"),
    "prop:routing.bits": (48, "9eed1315f4d750ba"),
    "prop:replication": (240, "2c196325d73760e9"),
    "app:anchor": (160, "c3814e6ceb2842b8"),
    "prop:mass": (80, "8e788879fb9e0960"),
    "thm:wlinjective": (11, "785102201b4e05a4"),
    "thm:wlinjective.refinement": (64, "805716b23d972a6a"),
    "cor:countedwl.normalised": (16, "c1599e67812f2906"),
    "cor:countedwl.slots": (11, "43022af4a8b5c77c"),
    "thm:upper.module": (5, "5801ddea734e6d4a"),
    "cor:countedwl.module": (5, "efa314384366297a"),
    "sec:background.cost": (18, "356019277173ce26"),
    "sec:discussion.distortion": (10, "f57f4c0cbd2b2f1a"),
    "sec:discussion.table": (28, "30605e20d98ca199"),
}


def watched(claim: Claim) -> tuple[int, str]:
    """Run a check on subject and controls; the number of their calls, and a digest of what went in and came out."""
    calls: list[str] = []

    def spy(subject: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            inputs = digest(*arguments)
            output = subject(*arguments)
            calls.append(digest(inputs, *([output] if isinstance(output, Tensor | Codebook | float) else [])))
            return output

        return called

    for subject in (claim.subject, *claim.controls.values()):
        claim.check(spy(subject), EXPECTED[claim.label].size, claim.generator(0))
    return len(calls), digest(*calls)


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.label in SEEN], ids=lambda claim: claim.label)
def test_a_claim_is_tried_on_the_same_instances(claim: Claim) -> None:
    assert watched(claim) == SEEN[claim.label]


def test_batches_like_the_benchmarks() -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [benchmark_batch(5, 3, generator), benchmark_batch(4, 2, generator, max_count=3, scales=(1, 2))]
    assert digest(*(part for pair in batches for part in pair)) == "594cfaeec62fd41b"
