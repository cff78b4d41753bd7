"""Makes the toy experiment importable here, in forked processes and in workers, as ``toy_experiment:Toy``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.train import RunRequest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., RunRequest]:
    """Return a maker of requests for the toy experiment: ``toy(seed=1, epochs=7)``."""

    def make(seed: int = 0, out: Path = tmp_path, devices: int = 1, **overrides: Any) -> RunRequest:
        return RunRequest("toy_experiment:Toy", "linear", seed, "quick", overrides, out, devices)

    return make
