"""The batches that the published records were made of: a change of the generator makes others, and is seen here."""

import pytest

from mooring.suite.two_radius.data import CountedTask, OriginalTask, PermutationTask
from mooring.suite.two_radius.data.batch import stream
from support import digest

COUNTED = {
    "train": "69b4fa4a12284e07",
    "validation": "6db00d52904a38cb",
    "test": "ea582597a97f245e",
}


@pytest.mark.parametrize("split", COUNTED)
def test_counted_batches(split: str) -> None:
    made = [CountedTask().batch(3, stream(0, split, epoch, 1)) for epoch in range(2)]  # type: ignore[arg-type]
    assert digest(*made) == COUNTED[split]


def test_permutations() -> None:
    assert digest(PermutationTask(7).batch(3, stream(0, "train"))) == "1311aada92ab9409"


def test_the_original_task() -> None:
    assert digest(OriginalTask(5, sizes=(4, 3, 2)).split(0, "train").batch(slice(None))) == "b6a34513db0ad7df"
