"""A separate registry for a test that registers modules."""

import pytest

from mooring import zoo
from mooring.zoo import registry


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    # All loaded before: what a file registers while the copy is in place would be lost with it.
    entries = {name: zoo.entry(name) for name in zoo.names()}
    monkeypatch.setattr(registry, "_ENTRIES", entries)
