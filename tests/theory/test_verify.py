import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from mooring.theory import CLAIMS, ClaimResult, labels, select, verify
from mooring.theory.addressing import Codebook
from mooring.theory.claim import Claim, Evidence
from support import digest


class Expected(NamedTuple):
    """Evidence of a check, from any seed.

    ``size`` is smaller than what `verify` runs, large enough that the check still meets its hard cases. ``examined`` is
    None if the number of instances is drawn. The report prints the numbers of a note. A curve is its logarithmic axes,
    positions and lines. ``calls`` are the calls of subject and controls and a digest of them, which pins the instances
    that a check draws; not in float32, whose last digits depend on the machine.
    """

    size: int
    examined: int | None
    note: str = ""
    margin: float | None = None
    curves: Sequence[tuple[str, int, int]] = ()
    calls: tuple[int, str] | None = None


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
        calls=(16, "f4621e651bac0bd0"),
    ),
    "thm:lower.layers": Expected(1, 9 * 2),
    "app:capacity.labels": Expected(
        2, 15 * 3, note="n=2, C=3, 3 bits: [0, 0] and [2, 2] share one transcript", margin=2 * math.log2(3) - 3
    ),
    "app:capacity.alphabet": Expected(
        2,
        2 * (2 * 25 + 3 * 343 + 4 * 81) + 4 * 2,
        note="the last in 1.52 n log2 C bits",
        margin=0.5,
        calls=(34, "538d566fad811095"),
    ),
    "thm:upper": Expected(
        1,
        3 * (2 * 2 + 3 * 6 + 4 * 24 + 5 * 120 + 6 * 720) + 5040 + 6,
        note="all n! for n<=7 (20154 distinct memories), random ones to n=1000 in 1.29 log2 n! bits",
        margin=0.5,
        calls=(77, "695ff012a4fc31bf"),
    ),
    "app:capacity.symmetry": Expected(7, 7, curves=[("y", 16, 2)], calls=(14, "8000423caf3c95de")),
    "prop:separable": Expected(40, 40, calls=(80, "a1679fbcb508af19")),
    "prop:onehot": Expected(
        2, 2 * (1 + 2 + 4 + 10 + 22), note="at least 1", margin=1.0, calls=(10, "8240b594da80bd2b")
    ),
    "prop:routing": Expected(30, None, curves=[("xy", 15, 2)], calls=(60, "47d2314f1c231e9a")),
    "prop:routing.codebook": Expected(
        7, 2 * 7, note="M up to 128 in 50 dimensions", curves=[("xy", 7, 3)], calls=(60, "100f03aba2811839")
    ),
    "prop:routing.growth": Expected(5, 2 * 5, curves=[("x", 5, 3)]),
    "prop:routing.bits": Expected(
        9,
        8 * 3,
        note="M=2, 0 coordinates of 1 bits: the worst-served target gives its slot 0.5",
        margin=0.5,
        calls=(48, "9eed1315f4d750ba"),
    ),
    "prop:replication": Expected(40, 40, calls=(240, "2c196325d73760e9")),
    "app:anchor": Expected(5, 5, curves=[("y", 8, 2)], calls=(160, "c3814e6ceb2842b8")),
    "prop:segment": Expected(1, 401, note="k=0..400 decoded within", margin=0.5),
    "prop:mass": Expected(40, 40, calls=(80, "8e788879fb9e0960")),
    "prop:mass.float32": Expected(41, 41, note="0 of 41 masses lost altogether", curves=[("y", 41, 2)]),
    "thm:wlinjective": Expected(7, 7 + 35 + 119 + 329 + 1715, margin=0.0252538, calls=(11, "785102201b4e05a4")),
    "thm:wlinjective.refinement": Expected(20, None, calls=(64, "805716b23d972a6a")),
    "cor:countedwl.wl": Expected(7, 6 * 2**3 * 2 + 7, note="0 targets share a colour", margin=0.0),
    "cor:countedwl.normalised": Expected(3, 4 * 3, calls=(16, "c1599e67812f2906")),
    "cor:countedwl.slots": Expected(3, 22116, margin=0.5, calls=(11, "43022af4a8b5c77c")),
    "thm:upper.module": Expected(2, 4 * 2, calls=(5, "5801ddea734e6d4a")),
    "cor:countedwl.module": Expected(2, 24, calls=(5, "efa314384366297a")),
    "prop:roundtrip": Expected(5, 5, curves=[("x", 6, 2)]),
    "sec:background.cost": Expected(
        2,
        9,
        note="exponents n: 1.000, pairs 1.000; slots: 1.000, pairs 1.000; dim: 1.000, pairs 0.000",
        curves=[("xy", 6, 2)],
        calls=(18, "356019277173ce26"),
    ),
    "sec:discussion.cost": Expected(3, 3 * 2 * 2 * 2, curves=[("xy", 6, 3)]),
    "sec:discussion.distortion": Expected(
        4,
        1 + 3 + 5,
        note="6 of 9 budgets searched exhaustively; at n=12 the two curves are 0.078 apart",
        margin=0.0,
        curves=[("", 45, 3), ("", 45, 2)],
        calls=(10, "f57f4c0cbd2b2f1a"),
    ),
    "sec:discussion.table": Expected(
        5,
        2 * 2 + 3 * 6 + 4 * 24 + 5 * 120,
        note="with 4 labels stored in 6.9 bits",
        margin=0.0,
        calls=(28, "30605e20d98ca199"),
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


def watched(claim: Claim) -> tuple[int, str]:
    """Run a check on subject and controls; return the number of their calls, and a digest of inputs and outputs."""
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


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS if EXPECTED[claim.label].calls], ids=lambda claim: claim.label
)
def test_a_claim_is_tried_on_the_same_instances(claim: Claim) -> None:
    assert watched(claim) == EXPECTED[claim.label].calls


# The committed record, which has to agree with the code.
RECORD = json.loads(Path(__file__).parents[2].joinpath("results/verify.json").read_text())
PUBLISHED = {claim["label"]: claim for claim in RECORD["claims"]}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?|inf")
ROUNDING = 1e-6


def near(measured: float | None, published: float | None) -> bool:
    """Return whether two figures agree to three digits; rounding errors need only agree to two orders of magnitude."""
    if measured is None or published is None or abs(published) > ROUNDING:
        return measured == pytest.approx(published, rel=1e-3)
    return abs(measured) <= max(100 * abs(published), 1e-12) and abs(published) <= max(100 * abs(measured), 1e-12)


def agree(measured: Any, published: Any) -> bool:
    """Return whether two values have the same words, and figures that are near."""
    if isinstance(published, str):
        same_words = NUMBER.sub("#", measured) == NUMBER.sub("#", published)
        figures = [
            tuple(map(float, pair)) for pair in zip(NUMBER.findall(measured), NUMBER.findall(published), strict=False)
        ]
        # Where the largest rounding error was met is rounding too.
        last = next((place for place, (_, other) in enumerate(figures, 1) if abs(other) <= ROUNDING), len(figures))
        return same_words and all(near(*pair) for pair in figures[:last])
    if isinstance(published, list):
        return len(measured) == len(published) and all(map(agree, measured, published))
    if isinstance(published, dict):
        return measured.keys() == published.keys() and all(agree(measured[name], published[name]) for name in published)
    if isinstance(published, float):
        return near(measured, published)
    return bool(measured == published)


def test_every_claim_is_published() -> None:
    assert tuple(PUBLISHED) == labels()


@pytest.mark.parametrize("label", dict.fromkeys(claim.label.split(".")[0] for claim in CLAIMS))
def test_the_record_agrees_with_the_code(label: str) -> None:
    for result in verify([label], seed=RECORD["seed"]).to_record()["claims"]:
        result = json.loads(json.dumps(result))
        for field, published in PUBLISHED[result["label"]].items():
            if field != "seconds":
                assert agree(result[field], published), (result["label"], field, result[field], published)
