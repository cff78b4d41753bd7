"""Many census graphs packed end to end, the form in which they are trained on and stored."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mooring.suite.motifs.data.generator import generate
from mooring.suite.motifs.data.graph import MotifGraph
from mooring.suite.motifs.data.settings import MotifSettings

_CHUNK = 125  # graphs per message between processes: about 0.1 s of work


@dataclass(frozen=True, eq=False)
class MotifDataset:
    """Graphs ``0..len-1`` of one split, concatenated.

    Shapes:
        types, marker, planted [nodes]; edges [2, edges], numbered inside each graph; counts, distractors [graphs, 6];
        copies [graphs]; node_start [graphs + 1] and edge_start [graphs + 1] say where each graph begins.
    """

    types: NDArray[np.uint8]
    marker: NDArray[np.bool_]
    planted: NDArray[np.uint8]
    edges: NDArray[np.int32]
    counts: NDArray[np.int32]
    distractors: NDArray[np.int32]
    copies: NDArray[np.int32]
    node_start: NDArray[np.int64]
    edge_start: NDArray[np.int64]

    @classmethod
    def pack(cls, graphs: Sequence[MotifGraph]) -> MotifDataset:
        return cls(
            types=np.concatenate([graph.types for graph in graphs]),
            marker=np.concatenate([graph.marker for graph in graphs]),
            planted=np.concatenate([graph.planted for graph in graphs]),
            edges=np.concatenate([graph.edges for graph in graphs], axis=1),
            counts=np.stack([graph.counts for graph in graphs]),
            distractors=np.stack([graph.distractors for graph in graphs]),
            copies=np.array([graph.copies for graph in graphs], dtype=np.int32),
            node_start=np.cumsum([0] + [graph.num_nodes for graph in graphs]),
            edge_start=np.cumsum([0] + [graph.edges.shape[1] for graph in graphs]),
        )

    def __len__(self) -> int:
        return len(self.copies)

    def __getitem__(self, index: int) -> MotifGraph:
        if not 0 <= index < len(self):
            raise IndexError(f"MotifDataset: graph {index} of {len(self)}.")
        nodes = slice(self.node_start[index], self.node_start[index + 1])
        edges = slice(self.edge_start[index], self.edge_start[index + 1])
        return MotifGraph(
            types=self.types[nodes],
            marker=self.marker[nodes],
            planted=self.planted[nodes],
            edges=self.edges[:, edges],
            counts=self.counts[index],
            distractors=self.distractors[index],
            copies=int(self.copies[index]),
        )

    def save(self, path: Path) -> None:
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load(cls, path: Path) -> MotifDataset:
        with np.load(path) as stored:
            return cls(**{field.name: stored[field.name] for field in fields(cls)})


def generate_many(settings: MotifSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> MotifDataset:
    """Make graphs ``0..num_graphs-1`` of a split; the bytes do not depend on ``workers``.

    Args:
        settings: Ranges of the census.
        split: One of ``SPLITS``.
        num_graphs: How many.
        seed: Seed of the whole census.
        workers: Processes to use; 1 stays in this one.

    >>> len(generate_many(MotifSettings(), "train", num_graphs=3, seed=0))
    3
    """
    if num_graphs < 1 or workers < 1:
        raise ValueError(f"motifs: num_graphs={num_graphs} and workers={workers} must be at least 1.")
    make = partial(_generate_range, settings, split, seed)
    starts = range(0, num_graphs, _CHUNK)
    stops = [min(start + _CHUNK, num_graphs) for start in starts]
    if workers == 1:
        return MotifDataset.pack(list(chain.from_iterable(map(make, starts, stops))))
    # A fresh interpreter per worker: forking a process that runs torch threads can deadlock.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return MotifDataset.pack(list(chain.from_iterable(pool.map(make, starts, stops))))


def _generate_range(settings: MotifSettings, split: str, seed: int, start: int, stop: int) -> list[MotifGraph]:
    return [generate(settings, split, index, seed) for index in range(start, stop)]
