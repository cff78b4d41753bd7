"""The graphs that the published records were made of: a change of the generator makes others, and is seen here."""

import pytest

from mooring.suite.linksets.data.generator import generate
from mooring.suite.linksets.data.graph import SPLITS, LinkSettings
from support import digest

SETTINGS = LinkSettings(larger_nodes=(65, 70))
GRAPHS = {
    "train": "d60b7dc08e85709f",
    "validation": "e699c007abf45cee",
    "test": "be996be88407f517",
    "larger": "1e05ae90fba51f7d",
}


@pytest.mark.parametrize("split", SPLITS)
def test_the_graphs_of_a_split(split: str) -> None:
    assert digest(*(generate(SETTINGS, split, number, seed=0) for number in range(3))) == GRAPHS[split]
