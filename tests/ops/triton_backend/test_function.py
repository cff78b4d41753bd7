"""The ops on the Triton back end, with gradients, on a few of the inputs of ``make soak``."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from support import ROOT, run_script


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_ops_on_this_back_end_equal_the_oracle(tmp_path: Path) -> None:
    said = run_script(ROOT / "tests/soak/kernels.py", "--inputs", "16", "--seed", "1", "--out", str(tmp_path))
    assert "'inputs': 16, 'wrong': 0" in said


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("pool", ["mean", "sum", "max", "slots"])
def test_a_virtual_node_runs_on_this_back_end_with_a_batched_backward(pool: str) -> None:
    """A plain virtual node pools uniformly, using keys of width zero."""
    said = run_script(ROOT / "tests/ops/triton_backend/pooling.py", pool)
    assert said.split() == ["0", "0"]
