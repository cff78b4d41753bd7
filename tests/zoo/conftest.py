"""Makes ``rivals`` importable beside the tests that share it, and gives a test a registry of its own."""

import sys
from pathlib import Path

import pytest

from mooring import zoo
from mooring.zoo import registry

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    # All loaded before: what a file registers while the copy is in place would be lost with it.
    entries = {name: zoo.entry(name) for name in zoo.names()}
    monkeypatch.setattr(registry, "_ENTRIES", entries)
