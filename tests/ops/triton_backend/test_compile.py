"""The kernels compile for a real GPU, and the benchmark that says so writes what it printed."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import ROOT, run_script

# Shared memory that a block may have on an A100.
LARGEST = 163 * 1024
KERNELS = {"write_chunks", "merge_states", "write_rows", "read_context", "read_rows", "merge_sums"}


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_compile_and_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "kernels.json"
    arguments = ["--targets", "80", "--dims", "64", "--slots", "16", "--json", str(out)]
    printed = run_script(ROOT / "benchmarks" / "kernels.py", *arguments)
    record = json.loads(out.read_text())
    assert {row["kernel"] for row in record["compiled"]} == KERNELS
    for row in record["compiled"]:
        assert 16 <= row["registers"] <= 255
        assert row["spilled"] == 0
        assert row["shared"] <= LARGEST
    assert "not measurements" in printed
    bounds = {(row["batch"], row["op"]): row for row in record["bounds"]}
    assert len(bounds) == 12
    skewed, single = bounds["skewed", "write"], bounds["one graph of 200,000", "write"]
    assert skewed["padded megabytes"] > 5 * skewed["megabytes"]
    # The features of the nodes are read once: 200,000 of 64 numbers of two bytes.
    assert 25.6 < single["megabytes"] < 2 * 25.6
    assert single["H100 bound, us"] < single["A100 bound, us"]
