"""One census graph as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class MotifGraph:
    """What a model sees (types, marker, edges) and what it must say (counts).

    Shapes:
        types [nodes] uint8, marker [nodes] bool (the root marker, shared by motifs and distractors),
        planted [nodes] uint8 (which gadget has its root here: 0 none, 1-6 a motif, 7-12 a distractor; no input),
        edges [2, edges] int32 (each undirected edge once), counts and distractors [6] int32, in the order of
        ``MOTIFS`` and ``DISTRACTORS``. ``copies`` is the number of connected components.
    """

    types: NDArray[np.uint8]
    marker: NDArray[np.bool_]
    planted: NDArray[np.uint8]
    edges: NDArray[np.int32]
    counts: NDArray[np.int32]
    distractors: NDArray[np.int32]
    copies: int = 1

    @property
    def num_nodes(self) -> int:
        return len(self.types)

    @property
    def target(self) -> NDArray[np.float32]:
        """``log(1 + count)`` per motif."""
        return np.log1p(self.counts).astype(np.float32)


def union(graphs: list[MotifGraph]) -> MotifGraph:
    """Disjoint union: nodes one graph after the other, counts added."""
    starts = np.cumsum([0] + [graph.num_nodes for graph in graphs[:-1]])
    return MotifGraph(
        types=np.concatenate([graph.types for graph in graphs]),
        marker=np.concatenate([graph.marker for graph in graphs]),
        planted=np.concatenate([graph.planted for graph in graphs]),
        edges=np.concatenate(
            [graph.edges + np.int32(start) for graph, start in zip(graphs, starts, strict=True)], axis=1
        ),
        counts=np.sum([graph.counts for graph in graphs], axis=0, dtype=np.int32),
        distractors=np.sum([graph.distractors for graph in graphs], axis=0, dtype=np.int32),
        copies=sum(graph.copies for graph in graphs),
    )
