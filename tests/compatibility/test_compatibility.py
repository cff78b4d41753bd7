"""Every line of docs/compatibility.md: each check on each module, and the page that is written from them."""

from __future__ import annotations

import ast

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from support import ROOT

from compared import OURS, SUBJECTS, Subject  # isort: skip
from lines import CHECKS, UNFUSED, WORKS, Check, Fails  # isort: skip
from write_page import PAGE, page, section  # isort: skip

RUN = [
    pytest.param(check, SUBJECTS[name], id=f"{check.name}-{name}")
    for check in CHECKS
    if check.run is not None
    for name in check.outcomes
]
pytestmark = [pytest.mark.usefixtures("as_users_run_it"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(("check", "subject"), RUN)
def test_outcome(check: Check, subject: Subject) -> None:
    outcome = check.outcomes[subject.name]
    assert check.run is not None
    if outcome == WORKS:
        check.run(subject)
        return
    assert isinstance(outcome, Fails)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        check.run(subject)
    assert outcome.other_words.get(subject.name, outcome.words) in str(caught.value)


UNFUSED_ONES = [
    pytest.param(check, SUBJECTS[name], id=f"{check.name}-{name}")
    for check in CHECKS
    for name, outcome in check.outcomes.items()
    if isinstance(outcome, Fails) and UNFUSED in outcome.note
]


@pytest.mark.parametrize(("check", "subject"), UNFUSED_ONES)
def test_what_works_with_unfused_attention(check: Check, subject: Subject) -> None:
    assert check.run is not None
    with sdpa_kernel(SDPBackend.MATH):
        check.run(subject)


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/compatibility/write_page.py"


def test_a_changed_outcome_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    line = CHECKS[0]
    before = section(line.section)
    monkeypatch.setitem(line.outcomes, OURS[0], Fails("words", "A note of its own."))
    assert "1. A note of its own." in section(line.section)
    assert "**no** [1]" in section(line.section).splitlines()[4]
    assert section(line.section) != before


@pytest.mark.parametrize("proof", sorted({proof for check in CHECKS for proof in check.proof}))
def test_what_is_proven_elsewhere_is(proof: str) -> None:
    file, _, name = proof.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_every_line_has_a_proof() -> None:
    for check in CHECKS:
        ours = any(name in check.outcomes for name in OURS)
        assert check.run is not None or check.proof, check.title
        assert ours or check.proof, check.title
    names = [check.name for check in CHECKS if check.run is not None]
    assert len(names) == len(set(names))


def test_a_check_that_should_fail_and_does_not_is_noticed() -> None:
    check = next(check for check in CHECKS if check.run is not None and check.name == "any_order")
    wrong = Check(check.section, check.title, lambda _: None, {"GPSConv": check.outcomes["GPSConv"]})
    with pytest.raises(pytest.fail.Exception):
        test_outcome(wrong, SUBJECTS["GPSConv"])
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="order of the nodes"):
        test_outcome(Check(check.section, check.title, check.run, {"GPSConv": WORKS}), SUBJECTS["GPSConv"])
