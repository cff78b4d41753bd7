"""The graphs that the published records were made of: a change of the generator makes others, and is seen here."""

import pytest

from mooring.suite.motifs.data import generate_many
from mooring.suite.motifs.data.graph import SPLITS, MotifSettings
from support import digest

GRAPHS = {
    "train": "1798004aa0b4c367",
    "validation": "e2f1cc7c1c1fb3bc",
    "iid": "48ceea359ee6490b",
    "counts": "a918c6500ae6dc48",
    "background": "45ebf18797d8e677",
    "mixture": "0675dfbca0d51caa",
    "replicated": "3e865e09aaf42cbb",
    "jittered": "f819e25abbc49684",
}


@pytest.mark.parametrize("split", SPLITS)
def test_the_graphs_of_a_split(split: str) -> None:
    made = generate_many(MotifSettings(), split, 5, seed=0)
    assert digest(*(made[number] for number in range(5))) == GRAPHS[split]
