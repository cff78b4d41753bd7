"""Times without first calls; peak memory that is what was touched; processes of their own that say how they end."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mooring.suite.bench import Setting
from mooring.suite.bench.measure import CLEAR, extra_memory, run_in_new_process, seconds
from support import run_script

MEGABYTE = 2**20

needs_linux = pytest.mark.skipif(not CLEAR.exists(), reason="only Linux can reset a peak")


@needs_linux
def test_growth_counts_touched_memory_at_its_highest_and_no_earlier_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own that gives pages back: else the allocator hands out some that were touched before."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(MEGABYTE))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(MEGABYTE))
    grown = json.loads(run_script(Path(__file__).with_name("growth_worker.py")))
    assert grown["highest"] == pytest.approx(60 * MEGABYTE, abs=5 * MEGABYTE)
    assert grown["after a higher peak"] == pytest.approx(53 * MEGABYTE, abs=5 * MEGABYTE)


def touch(megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * MEGABYTE, dtype=torch.uint8)


@needs_linux
def test_extra_memory_of_a_call_from_a_large_process() -> None:
    held = touch(701)  # more than the other process ever has; it would hide the call if it were inherited
    # Output and input gradient are two thirds. The write's and the read's shares of the gradient are added up: three.
    found = extra_memory(["write + read", "slots", "write + read"], "1x200003", Setting(dim=64, slots=3, heads=2))
    assert list(found) == ["write + read", "slots"]
    assert 2 / 3 <= found["write + read"] < 1.2  # the later of two, which finds nothing of the first
    assert held.numel() == 701 * MEGABYTE


PROGRAM = """
import resource, sys, torch
from mooring.suite.bench.measure import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
counts = []
for _ in range(6):
    before = faults()
    torch.ones(2**26)
    counts.append(faults() - before)
print(min(counts))
"""


def pages(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_kept_once_asked_for() -> None:
    # The minimum of several, as in timings: now and then another block has taken a piece out of the hole. Pages may be
    # huge ones, of which 256 MiB has 128.
    assert pages("keep") < 32
    assert pages("give back") >= 128


def test_first_calls_are_not_counted_and_slow_contestants_have_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.measure.PATIENCE", 0.01)
    calls = {"slow": 0, "quick": 0}

    def slow() -> None:
        calls["slow"] += 1
        time.sleep(0.2 if calls["slow"] == 1 else 0.02)

    def quick() -> None:
        calls["quick"] += 1

    found = seconds({"slow": slow, "quick": quick}, 5)
    assert calls == {"slow": 3, "quick": 11}
    assert 0.02 <= found["slow"].median < 0.2


def test_the_clock_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[None] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(None))
    seconds({"one": lambda: None}, 2, "cpu")
    assert not waits
    seconds({"one": lambda: None}, 2, "cuda")
    assert len(waits) == 2 * (1 + 2 * 2)  # before and after each call: the first one, and two rounds of two


def test_a_failed_process_is_an_error_with_its_last_words() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)^bench: mooring\..*print_times ended with 1: .*KeyError: 'threads'"):
        run_in_new_process("mooring.suite.bench.compare", "print_times", {})


def test_a_killed_process_is_probably_out_of_memory(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text("import os\n\ndef eat(request):\n    os.kill(os.getpid(), 9)\n")
    with pytest.raises(RuntimeError, match=r"greedy.eat ended with -9 \(killed, probably out of memory\)"):
        run_in_new_process("greedy", "eat", {}, {"PYTHONPATH": str(tmp_path)})
