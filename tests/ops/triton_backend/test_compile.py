"""The kernels compile for real GPUs, and the benchmark writes what it prints."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from mooring.suite import records
from support import ROOT, run_script

# Shared memory that a block may have on an A100.
LARGEST = 163 * 1024
KERNELS = {"write_chunks", "merge_states", "write_rows", "read_context", "read_rows", "merge_sums"}


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_compile_and_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    arguments = ["--targets", "80", "--dims", "64", "--slots", "16", "--precision", "bfloat16", "--out", str(tmp_path)]
    printed = run_script(ROOT / "benchmarks" / "kernels.py", *arguments)
    kernels, roofline = (records.read(tmp_path / f"{name}.json").data["rows"] for name in ("kernels", "roofline"))
    assert {row["kernel"] for row in kernels} == KERNELS
    for row in kernels:
        assert 16 <= row["registers"] <= 255
        assert row["spilled"] == 0
        assert row["shared"] <= LARGEST
    assert "not measurements" in printed
    bounds = {(row["batch"], row["op"]): row for row in roofline}
    assert len(bounds) == 12
    skewed, single = bounds["skewed", "write"], bounds["one graph of 200,000", "write"]
    assert skewed["padded_megabytes"] > 5 * skewed["megabytes"]
    # The features of the nodes are read once: 200,000 of 64 numbers of two bytes.
    assert 25.6 < single["megabytes"] < 2 * 25.6
    assert single["H100_bound_microseconds"] < single["A100_bound_microseconds"]
