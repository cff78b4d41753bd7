"""Which elements belong to the graphs of a batch, and graphs that are the same however many processes make them."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.suite.packed import in_chunks, ragged


def test_ragged_takes_graphs_in_any_order_and_twice() -> None:
    start = np.array([0, 3, 3, 7])
    position, owner = ragged(start, np.array([2, 1, 0, 2]))
    assert position.tolist() == [3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6]
    assert owner.tolist() == [0, 0, 0, 0, 2, 2, 2, 3, 3, 3, 3]


def test_ragged_of_nothing_is_empty() -> None:
    position, owner = ragged(np.array([0, 3, 7]), np.array([], dtype=np.int64))
    assert position.size == owner.size == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_chunks_are_whole_and_in_order(workers: int) -> None:
    made = list(in_chunks(list, 7, 3, workers))
    assert made == [[0, 1, 2], [3, 4, 5], [6]]
