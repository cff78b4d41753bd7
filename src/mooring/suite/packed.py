"""Graphs packed end to end: where those of a batch lie, and how many are made at once in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Graph = TypeVar("Graph")


def ragged(start: NDArray[np.int64], graphs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of every element of some graphs, and which of those graphs each belongs to.

    Args:
        start: where each graph begins, and where the last ends.
        graphs: numbers of the graphs, in any order; one may come twice.

    >>> [part.tolist() for part in ragged(np.array([0, 2, 5]), np.array([1, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    sizes = np.diff(start)[graphs]
    owner = np.repeat(np.arange(len(graphs)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    return start[graphs][owner] + within, owner


def in_chunks(make: Callable[[range], list[Graph]], num_graphs: int, size: int, workers: int) -> Iterator[list[Graph]]:
    """Graphs ``0..num_graphs-1`` in order, chunk by chunk, made in this process or in ``workers`` others.

    Args:
        make: makes the graphs of a range; a function that another process can import.
        num_graphs: how many.
        size: graphs in a chunk, one message between processes.
        workers: processes; 1 stays in this one.
    """
    ranges = [range(start, min(start + size, num_graphs)) for start in range(0, num_graphs, size)]
    if workers == 1:
        yield from map(make, ranges)
        return
    # Spawned, not forked: a fork of a process in which torch runs threads may never return.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent) as pool:
        yield from pool.map(make, ranges)


def _end_with_parent() -> None:
    # Pool processes wait for work for ever when their parent is killed.
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
