"""Fixtures of the Triton tests: kernels run in a separate process.

The interpreter would otherwise reach every test that compiles.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Tests import their helpers by name.
sys.path.insert(0, str(Path(__file__).parent))

from mooring.ops.triton.launch import LIMITS, Limits

# Two blocks of nodes per chunk, several chunks per graph; 16 is the least that a product of tiles takes.
SMALL = {
    "LIMITS": dict.fromkeys(LIMITS, Limits(nodes=16, node_numbers=4096, row_numbers=4096, warps=4)),
    "CHUNKS": (32, 32),
    "PROGRAMS": 4,
    "COUNT": 2,
}

Kernels = Callable[..., Any]


class LauncherError(Exception):
    """An error of a launcher, as text."""


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    """Call a launcher by its name; ``settings`` replaces block sizes."""
    if find_spec("triton") is None:
        pytest.skip("triton is not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "MOORING_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).parent / "worker.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def call(function: str, *arguments: Any, settings: dict[str, Any] | None = None, **keywords: Any) -> Any:
            request = (function, arguments, keywords, {**SMALL, **(settings or {})})
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            state, answer = pickle.load(process.stdout)
            if state == "failed":
                raise LauncherError(answer)
            return answer

        yield call
        process.stdin.close()
