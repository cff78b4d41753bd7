import json
import math
from typing import Any

import pytest
import torch

from mooring.theory import CLAIMS, ClaimResult, labels, select, verify
from mooring.theory.claim import Claim, Evidence

# Smaller than what `verify` runs, large enough that every check still meets its hard cases.
SMALL = {
    "thm:lower": 5,
    "thm:lower.tight": 5,
    "thm:lower.layers": 1,
    "app:capacity.labels": 2,
    "app:capacity.alphabet": 2,
    "thm:upper": 1,
    "app:capacity.symmetry": 7,
    "prop:separable": 40,
    "prop:onehot": 2,
    "prop:routing": 30,
    "prop:routing.codebook": 7,
    "prop:routing.growth": 5,
    "prop:routing.bits": 9,
    "prop:replication": 40,
    "app:anchor": 5,
    "prop:segment": 1,
    "prop:mass": 40,
    "prop:mass.float32": 41,
    "thm:wlinjective": 7,
    "thm:wlinjective.refinement": 20,
    "cor:countedwl.wl": 7,
    "cor:countedwl.normalised": 3,
    "cor:countedwl.slots": 3,
    "thm:upper.module": 2,
    "cor:countedwl.module": 2,
    "prop:roundtrip": 5,
    "sec:background.cost": 2,
    "sec:discussion.cost": 3,
    "sec:discussion.distortion": 4,
    "sec:discussion.table": 5,
}


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_claim_holds_with_evidence(claim: Claim, seed: int) -> None:
    evidence = claim.check(claim.subject, SMALL[claim.label], claim.generator(seed))
    assert evidence.passed is True, evidence.note
    assert type(evidence.margin) is float
    assert type(evidence.instances) is int
    assert evidence.instances > 0
    assert evidence.note


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_control_is_rejected_by_the_same_check(claim: Claim, seed: int) -> None:
    for meaning, control in claim.controls.items():
        evidence = claim.check(control, SMALL[claim.label], claim.generator(seed))
        assert evidence.passed is False, f"the check of {claim.label} accepts: {meaning}"


def test_every_numbered_statement_of_the_paper_has_a_claim() -> None:
    statements = {
        "thm:lower",
        "thm:upper",
        "prop:separable",
        "prop:onehot",
        "prop:routing",
        "prop:replication",
        "prop:segment",
        "prop:mass",
        "thm:wlinjective",
        "cor:countedwl",
    }
    assert statements <= {label.split(".")[0] for label in labels()}
    assert len(set(labels())) == len(labels())


def test_a_label_selects_all_its_parts_and_a_part_only_itself() -> None:
    assert [claim.label for claim in select(["prop:mass"])] == ["prop:mass", "prop:mass.float32"]
    assert [claim.label for claim in select(["prop:mass.float32"])] == ["prop:mass.float32"]
    assert select() == CLAIMS


def test_an_unknown_label_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no claim is labelled 'prop:mas'; did you mean 'prop:mass'\?"):
        select(["prop:mas"])
    with pytest.raises(ValueError, match="the labels are thm:lower"):
        select(["qqq"])


# Instances that each check counts at the sizes above, from any seed; two claims draw their number of instances.
COUNTED = {
    "thm:lower": 30,  # (n, states, bits) with a width above 0, three encoders each
    "thm:lower.tight": 5 * (6 + 24 + 120),
    "thm:lower.layers": 9 * 2,
    "app:capacity.labels": 15 * 3,
    "app:capacity.alphabet": 2 * (2 * 25 + 3 * 343 + 4 * 81) + 4 * 2,
    "app:capacity.symmetry": 7,
    "thm:upper": 3 * (2 * 2 + 3 * 6 + 4 * 24 + 5 * 120 + 6 * 720) + 5040 + 6,
    "prop:separable": 40,
    "prop:onehot": 2 * (1 + 2 + 4 + 10 + 22),
    "prop:routing": None,
    "prop:routing.codebook": 2 * 7,
    "prop:routing.growth": 2 * 5,
    "prop:routing.bits": 8 * 3,
    "prop:replication": 40,
    "app:anchor": 5,
    "prop:segment": 401,
    "prop:mass": 40,
    "prop:mass.float32": 41,
    "thm:wlinjective": 7 + 35 + 119 + 329 + 1715,
    "thm:wlinjective.refinement": None,
    "cor:countedwl.wl": 6 * 2**3 * 2 + 7,
    "cor:countedwl.normalised": 4 * 3,
    "cor:countedwl.slots": 22116,
    "thm:upper.module": 4 * 2,
    "cor:countedwl.module": 24,
    "sec:background.cost": 9,
    "sec:discussion.cost": 3 * 2 * 2 * 2,
    "sec:discussion.distortion": 1 + 3 + 5,
    "sec:discussion.table": 2 * 2 + 3 * 6 + 4 * 24 + 5 * 120,
    "prop:roundtrip": 5,
}
# What a note must say: the numbers in it are no part of the verdict, but the report prints them.
NOTED = {
    "thm:lower": "n=3, 2 bits: [0, 1, 2] and [2, 0, 1] share one transcript",
    "thm:lower.tight": "all n! transcripts distinct for n=3..5",
    "thm:upper": "all n! for n<=7 (20154 distinct memories), random ones to n=1000 in 1.29 log2 n! bits",
    "app:capacity.labels": "n=2, C=3, 3 bits: [0, 0] and [2, 2] share one transcript",
    "app:capacity.alphabet": "the last in 1.52 n log2 C bits",
    "prop:onehot": "at least 1",
    "prop:routing.codebook": "M up to 128 in 50 dimensions",
    "prop:routing.bits": "M=2, 0 coordinates of 1 bits: the worst-served target gives its slot 0.5",
    "prop:segment": "k=0..400 decoded within",
    "prop:mass.float32": "0 of 41 masses lost altogether",
    "cor:countedwl.wl": "0 targets share a colour",
    "sec:background.cost": "exponents n: 1.000, pairs 1.000; slots: 1.000, pairs 1.000; dim: 1.000, pairs 0.000",
    "sec:discussion.distortion": "6 of 9 budgets searched exhaustively; at n=12 the two curves are 0.078 apart",
    "sec:discussion.table": "with 4 labels stored in 6.9 bits",
}
# Margins that are the same from any seed.
MARGINS = {
    "thm:lower": math.log2(6) - 2,
    "thm:lower.tight": 7 - math.log2(120),
    "app:capacity.labels": 2 * math.log2(3) - 3,
    "app:capacity.alphabet": 0.5,
    "prop:routing.bits": 0.5,
    "prop:onehot": 1.0,
    "thm:wlinjective": 0.0252538,
    "cor:countedwl.wl": 0.0,
    "sec:discussion.distortion": 0.0,
    "sec:discussion.table": 0.0,
    "thm:upper": 0.5,
    "prop:segment": 0.5,
    "cor:countedwl.slots": 0.5,
}

# Curves of each claim that draws any: logarithmic axes, positions, lines.
DRAWN = {
    "thm:lower.tight": [("xy", 13, 2)],
    "app:capacity.symmetry": [("y", 16, 2)],
    "prop:routing": [("xy", 15, 2)],
    "prop:routing.codebook": [("xy", 7, 3)],
    "prop:routing.growth": [("x", 5, 3)],
    "app:anchor": [("y", 8, 2)],
    "prop:mass.float32": [("y", 41, 2)],
    "prop:roundtrip": [("x", 6, 2)],
    "sec:background.cost": [("xy", 6, 2)],
    "sec:discussion.cost": [("xy", 6, 3)],
    "sec:discussion.distortion": [("", 45, 3), ("", 45, 2)],
}


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
def test_evidence_is_a_function_of_the_generator_and_counts_what_was_examined(claim: Claim) -> None:
    def evidence(noise: int) -> Evidence:
        torch.manual_seed(noise)
        return claim.check(claim.subject, SMALL[claim.label], claim.generator(0))

    first, again = evidence(noise=1), evidence(noise=2)
    assert first == again
    assert COUNTED[claim.label] in (None, first.instances)
    assert NOTED.get(claim.label, "") in first.note
    assert [(curve.log, len(curve.x), len(curve.lines)) for curve in first.series] == DRAWN.get(claim.label, [])
    if claim.label in MARGINS:
        assert first.margin == pytest.approx(MARGINS[claim.label], abs=1e-6)


def test_record_of_a_run() -> None:
    seen: list[ClaimResult] = []
    run = verify(["prop:mass"], seed=3, instances=30, progress=seen.append)
    assert run.passed
    assert [result.label for result in seen] == ["prop:mass", "prop:mass.float32"]
    record = json.loads(json.dumps(run.to_record(), allow_nan=False))
    assert (record["schema"], record["kind"], record["seed"]) == (1, "verify", 3)
    claim = record["claims"][1]
    assert claim["passed"]
    assert claim["control_failed"]
    assert {"label", "statement", "instances", "margin", "margin_means", "control", "seconds"} <= set(claim)
    assert set(claim["series"][0]) == {"title", "x", "lines", "xlabel", "ylabel", "log"}


def test_runs_repeat() -> None:
    first, second = (verify(["prop:replication"], seed=5, instances=7).results[0] for _ in range(2))
    assert (first.margin, first.note) == (second.margin, second.note)


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.least > 1], ids=lambda claim: claim.label)
def test_the_fewest_instances_of_a_claim_still_prove_it(claim: Claim[Any]) -> None:
    result = claim.run(instances=claim.least)
    assert result.ok
    assert result.instances > 0
    with pytest.raises(ValueError, match=f"{claim.label}: instances must be at least {claim.least}, got 1"):
        claim.run(instances=1)
