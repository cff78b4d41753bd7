"""Peak memory is what was touched, whatever the starting process holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mooring.suite.bench.peak import CLEAR, extra_memory
from mooring.suite.bench.setting import Setting
from support import run_script

MEGABYTE = 2**20

pytestmark = pytest.mark.skipif(not CLEAR.exists(), reason="the mark that can be put back is Linux's")


def test_growth_counts_touched_memory_at_its_highest_and_no_earlier_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own that gives pages back: else the allocator hands out some that were touched before."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(MEGABYTE))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(MEGABYTE))
    grown = json.loads(run_script(Path(__file__).with_name("growth_worker.py")))
    assert grown["highest"] == pytest.approx(60 * MEGABYTE, abs=5 * MEGABYTE)
    assert grown["after a higher peak"] == pytest.approx(53 * MEGABYTE, abs=5 * MEGABYTE)


def touch(megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * MEGABYTE, dtype=torch.uint8)


def test_extra_memory_of_a_call_from_a_large_process() -> None:
    held = touch(701)  # more than the other process ever has; it would hide the call if it were inherited
    # Output and input gradient are two thirds. The write's and the read's shares of the gradient are added up: three.
    found = extra_memory(["write + read", "slots", "write + read"], "1x200003", Setting(dim=64, slots=3, heads=2))
    assert list(found) == ["write + read", "slots"]
    assert 2 / 3 <= found["write + read"] < 1.2  # the later of two, which finds nothing of the first
    assert held.numel() == 701 * MEGABYTE
