"""The small sets that examples and tests train on are the same every time."""

from mooring.suite.real.data import generated_graphs, generated_nodes
from support import digest


def test_trees() -> None:
    assert digest(generated_graphs(13, 2)) == "64ed088bad207ca9"
    assert digest(generated_graphs(20, 3, classes=True, seed=1)) == "1881887b69c6e3b1"


def test_a_ring_with_chords() -> None:
    assert digest(generated_nodes(31)) == "88beacfe38864db7"
