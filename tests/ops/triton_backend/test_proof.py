"""The check of the kernels on first use of a device, with correct and with broken kernels."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from support import ROOT, run_script

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


PLANTED = {
    "write_chunks.content": "content differs",
    "write_rows.grad_key": "gradient of the write's key differs",
    "merge_sums.grad_value": "gradient of the read's value differs",
    "read_context": "RuntimeError: read_context does not compile",
}


def first_use(*cases: str) -> list[tuple[list[str], list[str]]]:
    """Return for each ``FAULT:HOW`` what was called or chosen, in this order, and the warnings."""
    said = run_script(ROOT / "tests/ops/triton_backend/first_use.py", *cases)
    return [tuple(json.loads(line)) for line in said.splitlines()]


def test_a_planted_broken_kernel_is_caught_and_not_used() -> None:
    (called, warned), *others = first_use(":once", *(f"{fault}:once" for fault in PLANTED))
    assert called == ["check", "triton"]
    assert not warned
    for (called, warned), said in zip(others, PLANTED.values(), strict=True):
        assert called == ["check", "plain"]
        assert len(warned) == 1
        assert said in warned[0]
        assert "use_backend('triton')" in warned[0]


def test_the_check_runs_once_whoever_asks_and_not_for_kernels_asked_for_by_name() -> None:
    cases = [":modes", "write_rows:threads", "read_context:forced", ":compiled", "merge_sums.grad_value:compiled"]
    modes, threads, forced, traced, planted = first_use(*cases)
    # Inference mode, autocast and a default device of the caller do not reach the check.
    assert modes == (["check", "triton", "triton"], [])
    assert threads[0] == ["check", *["plain"] * 5]
    assert forced[0] == ["triton", "read_context-does-not-compile", "check", "plain"]
    # A traced graph is told while it is traced.
    assert traced == (["check", "True", "triton"], [])
    assert planted[0] == ["check", "True", "plain"]
    assert [len(warned) for _, warned in (threads, forced, planted)] == [1, 1, 1]
