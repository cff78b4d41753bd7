"""Compiled modules call the kernels as custom ops."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support import ROOT, run_script

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


def test_operators_pass_the_checks_of_torch() -> None:
    said = run_script(ROOT / "tests/ops/triton_backend/traced.py", "operators")
    assert said.split() == ["4", "3"]


@pytest.mark.parametrize(("backend", "calls"), [("aot_eager", 5), ("inductor", 3)])
def test_a_compiled_module_uses_the_kernels_and_is_right(backend: str, calls: int) -> None:
    """Compile one graph; the second batch makes sizes dynamic, and the third causes no compilation."""
    lines = run_script(ROOT / "tests/ops/triton_backend/traced.py", backend).splitlines()
    assert len(lines) == calls
    for line in lines:
        call, _, error, launched, graphs = line.split()
        assert float(error) < (3e-2 if call == "bfloat16" else 1e-5)
        assert launched == "True"
        assert int(graphs) <= 2
