import pytest

from mooring.theory import CLAIMS, labels, select
from mooring.theory.claim import Claim

# Smaller than what `verify` runs, large enough that every check still meets its hard cases.
SMALL = {
    "thm:lower": 5,
    "thm:lower.tight": 5,
    "thm:upper": 1,
    "app:capacity.symmetry": 7,
    "prop:separable": 40,
    "prop:onehot": 2,
    "prop:routing": 30,
    "prop:routing.codebook": 7,
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
    "sec:background.cost": 2,
    "sec:discussion.distortion": 4,
    "sec:discussion.table": 5,
}


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_claim_holds_with_evidence(claim: Claim, seed: int) -> None:
    evidence = claim.check(claim.subject, SMALL[claim.label], claim.generator(seed))
    assert evidence.passed, evidence.note
    assert evidence.instances > 0
    assert evidence.note


@pytest.mark.parametrize("claim", CLAIMS, ids=labels())
@pytest.mark.parametrize("seed", [0, 23])
def test_control_is_rejected_by_the_same_check(claim: Claim, seed: int) -> None:
    for meaning, control in claim.controls.items():
        evidence = claim.check(control, SMALL[claim.label], claim.generator(seed))
        assert not evidence.passed, f"the check of {claim.label} accepts: {meaning}"


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
    with pytest.raises(ValueError, match="Known labels: thm:lower"):
        select(["qqq"])
