"""Numbers of calls, launches and host syncs of one layer."""

from __future__ import annotations

import sys

import pytest
import torch

from mooring import ops
from mooring.nn import SlotVirtualNode, SlotWrite
from support import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from launches import SLOTS, WIDTH, Counter, batches, count  # isort: skip


@pytest.fixture(scope="module")
def counted() -> dict[tuple[str, str], dict[str, int]]:
    return {(row["batch"], row["path"]): row for row in count(("64 molecules", "skewed"))}


def test_with_a_plan_nothing_is_read_back(counted: dict[tuple[str, str], dict[str, int]]) -> None:
    assert {row["host_reads"] for row in counted.values()} == {0}


def test_without_one_something_is() -> None:
    batch, counter = batches()["64 molecules"], Counter()
    with counter.listening():
        SlotVirtualNode(WIDTH, SLOTS)(torch.randn(len(batch), WIDTH), batch)
    assert counter.reads


def test_a_gpu_gets_few_launches_whatever_the_sizes(counted: dict[tuple[str, str], dict[str, int]]) -> None:
    counts = {row["launches"] for (_, path), row in counted.items() if "Triton" in path}
    assert len(counts) == 1
    assert counts.pop() <= 40


def test_a_batch_of_molecules_takes_few_calls(counted: dict[tuple[str, str], dict[str, int]]) -> None:
    assert counted["64 molecules", "CPU"]["calls"] <= 111
    assert counted["64 molecules", "CPU"]["launches"] <= 46


def test_a_write_with_a_plan_trusts_its_log_weight() -> None:
    batch = batches()["64 molecules"]
    plan, x, weight = ops.plan(batch), torch.randn(len(batch), WIDTH), torch.zeros(len(batch))
    write, query = SlotWrite(WIDTH, SLOTS), torch.randn(SLOTS, 4, WIDTH)
    rows = x.unsqueeze(1)
    reads = []
    for call in (
        lambda: write(x, plan, log_weight=weight),
        lambda: ops.write(query, rows, rows, plan, log_weight=weight),
    ):
        call()
        counter = Counter()
        with counter.listening():
            call()
        reads.append(counter.reads)
    # The module asks only whether some node is left out altogether; the op checks the values.
    assert reads == [1, 1]
