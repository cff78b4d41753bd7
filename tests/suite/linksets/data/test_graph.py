from __future__ import annotations

from typing import Any

import pytest

from mooring.suite.linksets.data import LinkSettings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": (13, 11)}, "empty. Pass the smaller end first"),
        ({"nodes": (1, 11)}, "a link needs two nodes"),
        ({"larger_nodes": (64, 90)}, "inside the training range"),
        ({"reach": 0.0}, "leaves no candidate pair"),
        ({"reach": 2.5}, "reaches past the disc"),
        ({"sectors": 0}, "at least 1"),
        ({"sectors": 8, "degree": 7}, "8 sectors around a node that has at most 7 others"),
        ({"per_sector": 7}, "the sector rule could never bind"),
        ({"degree": 10}, "have room for \\(9\\)"),
        ({"spread": 20.0}, "Lower spread or raise decay"),
        ({"decay": 0.0}, "Lower spread or raise decay"),
        ({"spread": -1.0}, "expected 0 to 14"),
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinkSettings(**fields)


def test_settings_at_the_limits_are_accepted() -> None:
    LinkSettings(nodes=(4, 4), larger_nodes=(5, 5), sectors=3, per_sector=1, degree=3, reach=2.0, spread=0.0)


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match="unknown split 'valid'; the splits are train, validation, test, larger"):
        LinkSettings().size_range("valid")


def test_published_settings_are_the_default() -> None:
    published = {"nodes": (8, 64), "larger_nodes": (80, 128), "reach": 1.0, "spread": 6.0, "decay": 1.0}
    assert LinkSettings() == LinkSettings(**published, sectors=3, per_sector=3, degree=6)
