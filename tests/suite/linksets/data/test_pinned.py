"""The graphs that the published records were made of: a change of the generator makes others, and is seen here."""

import pytest

from mooring.suite.linksets.data.generator import generate
from mooring.suite.linksets.data.graph import SPLITS, LinkSettings
from support import digest

SETTINGS = LinkSettings(larger_nodes=(65, 70))
GRAPHS = {
    "train": "a9121042357ffc3e",
    "validation": "16d8abc62307bc3c",
    "test": "acbc3f5120105871",
    "larger": "cb2c848d55ee8712",
}


@pytest.mark.parametrize("split", SPLITS)
def test_the_graphs_of_a_split(split: str) -> None:
    assert digest(*(generate(SETTINGS, split, number, seed=0) for number in range(3))) == GRAPHS[split]
