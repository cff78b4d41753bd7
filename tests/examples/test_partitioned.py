"""The example learns, and learns the same, however many processes share its graph."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from types import ModuleType

import pytest

from support import ROOT

SCRIPT = ROOT / "examples" / "partitioned.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("partitioned", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def torchrun(processes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), str(SCRIPT)]
    environment = {**os.environ, "MOORING_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *launch, *arguments], capture_output=True, text=True, timeout=240, env=environment, check=False
    )


def test_two_processes_learn_what_one_does(example: ModuleType) -> None:
    steps = 23
    done = torchrun(2, "--nodes", "2003", "--steps", str(steps))
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(text) for text in re.findall(r"^step +\d+  loss (\S+)", done.stdout, re.MULTILINE)]
    assert losses == pytest.approx(example.train(2003, steps), rel=1e-3)
    assert sum(losses[-5:]) < sum(losses[:5]) / 3
    held = re.findall(r"^rank (\d): ([\d,]+) nodes, peak memory \d+ MB", done.stdout, re.MULTILINE)
    assert sorted(held) == [("0", "1,001"), ("1", "1,002")]


def test_parts_are_the_whole_graph(example: ModuleType) -> None:
    whole = example.part(3, 101, 0, 1)
    parts = [example.part(3, 101, rank, 3) for rank in range(3)]
    assert [int(colour) for part in parts for colour in part[0]] == whole[0].tolist()
    assert all(int(edges.max()) < colour.numel() for colour, edges in parts)
