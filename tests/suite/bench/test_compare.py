"""Nothing is timed while the ops are wrong; rows of the sweep over batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from mooring import ops
from mooring.ops import SlotState
from mooring.ops.tiles.layout import Layout
from mooring.ops.write import write as right_write
from mooring.suite.bench import Setting, WrongResult, bench, compare
from mooring.suite.bench.compare import MANY, check_oracle, compare_batches


def heavier(*arguments: Any, **options: Any) -> SlotState:
    state = right_write(*arguments, **options)
    return SlotState(state.content, state.log_mass + 1e-6)


def detached(*arguments: Any, **options: Any) -> SlotState:
    state = right_write(*arguments, **options)
    return SlotState(state.content.detach(), state.log_mass)


@pytest.mark.parametrize("wrong", [heavier, detached])
def test_a_wrong_write_is_refused_before_the_clock_starts(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., SlotState]
) -> None:
    started = []
    monkeypatch.setattr(ops, "write", wrong)
    monkeypatch.setattr(compare, "seconds", lambda *arguments: started.append(arguments))
    with pytest.raises(WrongResult, match=r"bench: write or read differs from the oracle by .* Nothing was timed"):
        bench(["3x7"], threads=1, repeats=1, peers=["slots"], memory=False)
    assert not started


def test_a_fault_of_large_graphs_only_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.zeros(MANY, dtype=torch.long)
    assert check_oracle(batch) < 1e-10
    cut = Layout._cut

    def drop_the_last_tile(*arguments: Any) -> Any:
        found = list(cut(*arguments))
        return iter(found if len(found) == 1 else [*found[:-2], replace(found[-2], last=True)])

    monkeypatch.setattr(Layout, "_cut", drop_the_last_tile)
    with pytest.raises(WrongResult):
        check_oracle(batch)


def test_every_width_and_number_of_threads_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.compare.WIDTHS", (8, 16))
    rows = compare_batches("molecules-3", ["slots, FiLM", "plain padded"], Setting(dim=8, slots=2, heads=2), 1)
    found = [(row["graphs"], row["width"], row["threads"]) for row in rows]
    assert found == [(3, 8, 1), (3, 16, 1), (3, 8, 2), (3, 16, 2)]
    assert all(row["plain padded_over_slots"] > 0 for row in rows)
