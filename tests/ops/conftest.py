"""Fixtures of the ops tests: makes ``cases`` importable and creates tensors on ``--device``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from placement import placed


@pytest.fixture(autouse=True)
def _on_the_device(request: pytest.FixtureRequest) -> Iterator[None]:
    device = request.config.getoption("--device")
    if device == "cpu":
        yield
        return
    with placed(device):
        yield
