import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch

from mooring.theory import CLAIMS, ClaimResult, labels, select, verify
from mooring.theory.claim import Claim, Evidence


class Expected(NamedTuple):
    """Evidence of a check, from any seed.

    ``size`` is smaller than what `verify` runs, large enough that the check still meets its hard cases. ``examined`` is
    None if the number of instances is drawn. The report prints the numbers of a note. A curve is its logarithmic axes,
    positions and lines.
    """

    size: int
    examined: int | None
    note: str = ""
    margin: float | None = None
    curves: Sequence[tuple[str, int, int]] = ()


EXPECTED = {
    "thm:lower": Expected(
        5, 30, note="n=3, 2 bits: [0, 1, 2] and [2, 0, 1] share one transcript", margin=math.log2(6) - 2
    ),
    "thm:lower.tight": Expected(
        5,
        5 * (6 + 24 + 120),
        note="all n! transcripts distinct for n=3..5",
        margin=7 - math.log2(120),
        curves=[("xy", 13, 2)],
    ),
    "thm:lower.layers": Expected(1, 9 * 2),
    "app:capacity.labels": Expected(
        2, 15 * 3, note="n=2, C=3, 3 bits: [0, 0] and [2, 2] share one transcript", margin=2 * math.log2(3) - 3
    ),
    "app:capacity.alphabet": Expected(
        2, 2 * (2 * 25 + 3 * 343 + 4 * 81) + 4 * 2, note="the last in 1.52 n log2 C bits", margin=0.5
    ),
    "thm:upper": Expected(
        1,
        3 * (2 * 2 + 3 * 6 + 4 * 24 + 5 * 120 + 6 * 720) + 5040 + 6,
        note="all n! for n<=7 (20154 distinct memories), random ones to n=1000 in 1.29 log2 n! bits",
        margin=0.5,
    ),
    "app:capacity.symmetry": Expected(7, 7, curves=[("y", 16, 2)]),
    "prop:separable": Expected(40, 40),
    "prop:onehot": Expected(2, 2 * (1 + 2 + 4 + 10 + 22), note="at least 1", margin=1.0),
    "prop:routing": Expected(30, None, curves=[("xy", 15, 2)]),
    "prop:routing.codebook": Expected(7, 2 * 7, note="M up to 128 in 50 dimensions", curves=[("xy", 7, 3)]),
    "prop:routing.growth": Expected(5, 2 * 5, curves=[("x", 5, 3)]),
    "prop:routing.bits": Expected(
        9, 8 * 3, note="M=2, 0 coordinates of 1 bits: the worst-served target gives its slot 0.5", margin=0.5
    ),
    "prop:replication": Expected(40, 40),
    "app:anchor": Expected(5, 5, curves=[("y", 8, 2)]),
    "prop:segment": Expected(1, 401, note="k=0..400 decoded within", margin=0.5),
    "prop:mass": Expected(40, 40),
    "prop:mass.float32": Expected(41, 41, note="0 of 41 masses lost altogether", curves=[("y", 41, 2)]),
    "thm:wlinjective": Expected(7, 7 + 35 + 119 + 329 + 1715, margin=0.0252538),
    "thm:wlinjective.refinement": Expected(20, None),
    "cor:countedwl.wl": Expected(7, 6 * 2**3 * 2 + 7, note="0 targets share a colour", margin=0.0),
    "cor:countedwl.normalised": Expected(3, 4 * 3),
    "cor:countedwl.slots": Expected(3, 22116, margin=0.5),
    "thm:upper.module": Expected(2, 4 * 2),
    "cor:countedwl.module": Expected(2, 24),
    "prop:roundtrip": Expected(5, 5, curves=[("x", 6, 2)]),
    "sec:background.cost": Expected(
        2,
        9,
        note="exponents n: 1.000, pairs 1.000; slots: 1.000, pairs 1.000; dim: 1.000, pairs 0.000",
        curves=[("xy", 6, 2)],
    ),
    "sec:discussion.cost": Expected(3, 3 * 2 * 2 * 2, curves=[("xy", 6, 3)]),
    "sec:discussion.distortion": Expected(
        4,
        1 + 3 + 5,
        note="6 of 9 budgets searched exhaustively; at n=12 the two curves are 0.078 apart",
        margin=0.0,
        curves=[("", 45, 3), ("", 45, 2)],
    ),
    "sec:discussion.table": Expected(
        5, 2 * 2 + 3 * 6 + 4 * 24 + 5 * 120, note="with 4 labels stored in 6.9 bits", margin=0.0
    ),
}


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_claim_holds_with_evidence(claim: Claim, seed: int) -> None:
    evidence = claim.check(claim.subject, EXPECTED[claim.label].size, claim.generator(seed))
    assert evidence.passed is True, evidence.note
    assert type(evidence.margin) is float
    assert type(evidence.instances) is int
    assert evidence.instances > 0
    assert evidence.note


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_control_is_rejected_by_the_same_check(claim: Claim, seed: int) -> None:
    for meaning, control in claim.controls.items():
        evidence = claim.check(control, EXPECTED[claim.label].size, claim.generator(seed))
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


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
def test_evidence_is_a_function_of_the_generator_and_counts_what_was_examined(claim: Claim) -> None:
    def evidence(noise: int) -> Evidence:
        torch.manual_seed(noise)
        return claim.check(claim.subject, EXPECTED[claim.label].size, claim.generator(0))

    first, again = evidence(noise=1), evidence(noise=2)
    assert first == again
    expected = EXPECTED[claim.label]
    assert expected.examined in (None, first.instances)
    assert expected.note in first.note
    assert [(curve.log, len(curve.x), len(curve.lines)) for curve in first.series] == list(expected.curves)
    if expected.margin is not None:
        assert first.margin == pytest.approx(expected.margin, abs=1e-6)


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
