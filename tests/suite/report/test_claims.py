"""A caption may claim only what the runs of its table bear out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.suite.records import Record
from mooring.suite.report.claims import as_preset, once_per_seed, one_budget, same_seeds
from mooring.suite.report.exhibits import CONTRADICTED, Claim, contradictions
from mooring.suite.report.groups import Group, others


def make(model: str, variant: str = "", seeds: tuple[int, ...] = (0, 1), **changes: Any) -> Group:
    config = {"dataset": "esol", "epochs": 2, "steps_per_epoch": 5, **changes}
    data = {"model": model, "config": config, "parameters": {"total": changes.get("parameters", 100)}}
    return Group(model, variant, tuple(Record(Path("a"), "run", data | {"seed": seed}) for seed in seeds))


@pytest.mark.parametrize(
    ("claim", "groups", "message"),
    [
        (as_preset, [make("vn"), make("vn", "epochs 3")], "but one is VN (epochs 3)"),
        (same_seeds, [make("vn"), make("mpnn", seeds=(0, 2))], "VN has 0, 1 and MPNN has 0, 2"),
        (once_per_seed, [make("vn"), make("vn", "epochs 3", (1,))], "vn has two runs at seed 1"),
        (
            one_budget,
            [make("vn", parameters=94), make("mpnn")],
            "one budget of parameters, but VN has 94 and MPNN has 100",
        ),
        (one_budget, [make("vn", epochs=1), make("mpnn")], "one budget of updates, but VN has 5 and MPNN has 10"),
    ],
)
def test_a_false_claim_is_contradicted_and_a_true_one_is_not(claim: Claim, groups: list[Group], message: str) -> None:
    (sentence,) = contradictions([claim], groups, [(item.title,) for item in groups])
    assert sentence.startswith(CONTRADICTED)
    assert message in sentence
    fine = [
        make("vn"),
        make("mpnn", parameters=96),
        make("plain", parameters=10),
        make("gcn", dataset="lipo", epochs=9),
    ]
    assert contradictions([claim], fine, []) == []


def test_a_row_that_hides_a_change_is_named() -> None:
    groups = [make("vn"), make("vn", "epochs 3")]
    assert contradictions([], groups, [("VN", "1"), ("VN (epochs 3)", "2")]) == []
    (sentence,) = contradictions([], groups, [("VN", "1"), ("VN", "2")])
    assert sentence == f"{CONTRADICTED}VN (epochs 3) differs from the preset, but no row says so."


def test_configurations_that_are_not_shown_are_named() -> None:
    every = [make("vn"), make("vn", "epochs 3"), make("mpnn")]
    assert others(every[:1], every) == ["Run too, but not shown: VN (epochs 3)."]
    assert others(every, every) == []
