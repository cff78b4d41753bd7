"""One step on a divided mesh: gradients of one process, halos that fit, regions by either tool."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from support import ROOT

SCRIPT = ROOT / "examples" / "large_mesh.py"
SIZES = ("--nodes", "1500", "--channels", "16", "--layers", "2", "--double")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("large_mesh", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["large_mesh"] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def test_three_processes_have_the_gradients_of_one(example: ModuleType, tmp_path: Path) -> None:
    losses, gradients = example.train(1500, 3, 16, 2, torch.float64)
    torch.save(gradients, tmp_path / "gradients.pt")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", str(SCRIPT)]
    done = subprocess.run(
        [sys.executable, *launch, *SIZES, "--steps", "3", "--gradients", str(tmp_path / "gradients.pt")],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "MOORING_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [float(text) for text in re.findall(r"^step \d+  loss (\S+)", done.stdout, re.MULTILINE)]
    assert found == pytest.approx(losses, rel=1e-6, abs=1e-6)
    (apart,) = re.findall(r"largest difference of gradients: (\S+) of", done.stdout)
    assert float(apart) < 1e-10
    assert len(re.findall(r"[\d,]+ bytes", done.stdout)) == 3
    # The comparison sees a hundredth.
    off = example.train(1500, 1, 16, 2, torch.float64)[1]
    off[3] += 0.01 * off[3].abs().max()
    assert example.difference(off, gradients) == pytest.approx(0.01, rel=0.01)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_regions_are_the_whole_mesh_and_their_halos_fit(example: ModuleType, world: int) -> None:
    position, pairs = example.plate(1500)
    labels = example.bisect(position, world)
    assert np.bincount(labels).tolist() == pytest.approx([len(position) / world] * world, abs=2)
    regions = [example.cut(position, pairs, labels, rank, world) for rank in range(world)]
    assert sorted(torch.cat([region.nodes for region in regions]).tolist()) == list(range(len(position)))
    edges = set()
    for rank, region in enumerate(regions):
        # The rows that the other processes send, in the order in which they arrive.
        halo = [other.nodes[other.send[sum(other.sends[:rank]) : sum(other.sends[: rank + 1])]] for other in regions]
        assert [len(rows) for rows in halo] == region.receives
        number = torch.cat([region.nodes, *halo])
        assert int(region.edge_index[1].max()) < len(region.nodes)
        edges |= set(map(tuple, number[region.edge_index].T.tolist()))
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    assert edges == set(map(tuple, both.T.tolist()))
    assert len(edges) == both.shape[1]


def test_metis_divides_the_same_mesh(example: ModuleType) -> None:
    pytest.importorskip("pymetis", reason="METIS is optional: pip install pymetis")
    position, pairs = example.plate(1500)
    labels, tool = example.divide(position, pairs, 4)
    assert tool == "METIS"
    cut, halves = (int((part[pairs[0]] != part[pairs[1]]).sum()) for part in (labels, example.bisect(position, 4)))
    assert cut < 1.5 * halves
