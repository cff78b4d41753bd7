"""Census graphs: their gadgets, the ranges they are drawn from, packed data sets, and batches as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from mooring.suite.packed import Packed, ragged


@dataclass(frozen=True)
class Shape:
    """Small connected graph whose node 0 is the root, attached to the rest of a graph by one edge at the root."""

    name: str
    num_nodes: int
    edges: tuple[tuple[int, int], ...]


# app:motifs fixes this order of the target vector. Sizes are the smallest that distinguish the six.
MOTIFS: tuple[Shape, ...] = (
    Shape("triangle", 3, ((0, 1), (0, 2), (1, 2))),
    Shape("square", 4, ((0, 1), (1, 2), (2, 3), (3, 0))),
    Shape("star", 5, ((0, 1), (0, 2), (0, 3), (0, 4))),
    Shape("path", 4, ((0, 1), (1, 2), (2, 3))),
    Shape("clique", 4, ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))),
    Shape("diamond", 4, ((0, 1), (0, 2), (0, 3), (1, 2), (2, 3))),
)

# Each is a near miss of the motif at the same position: one leaf more or fewer, a longer cycle, a wrong root. If
# distractors were unlike the motifs, counting markers would suffice.
DISTRACTORS: tuple[Shape, ...] = (
    Shape("paw", 4, ((0, 1), (0, 2), (1, 2), (2, 3))),
    Shape("pentagon", 5, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))),
    Shape("claw", 4, ((0, 1), (0, 2), (0, 3))),
    Shape("long_path", 5, ((0, 1), (1, 2), (2, 3), (3, 4))),
    Shape("clique5", 5, tuple((a, b) for a in range(5) for b in range(a + 1, 5))),
    Shape("tilted_diamond", 4, ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))),
)

MOTIF_NAMES: tuple[str, ...] = tuple(shape.name for shape in MOTIFS)


# The position of a split is its random stream, so "train", "validation" and "iid" are three samples of one
# distribution. New splits go at the end: an insertion would change every graph after it.
SPLITS = ("train", "validation", "iid", "counts", "background", "mixture", "replicated", "jittered")
TEST_SPLITS: tuple[str, ...] = SPLITS[2:]


@dataclass(frozen=True)
class MotifSettings:
    """Ranges of the motif census; every range includes both ends. ``docs/motifs.md`` explains each value.

    Args:
        max_count: in-distribution count of each motif is uniform on ``0..max_count``.
        max_distractors: in-distribution count of each distractor family is uniform on ``0..max_distractors``.
        background: in-distribution background size, log-uniform.
        extra_edges: background edges beyond a spanning tree, per background node.
        num_types: node types, drawn uniformly and independently of motifs.
        ood_counts: count of each motif in split ``counts``.
        ood_background: background size in split ``background``.
        copies: number of copies of an ``iid`` graph in splits ``replicated`` and ``jittered``.
        rewired: degree-preserving swaps of a jittered copy, per edge outside the gadgets.
        retyped: share of a jittered copy's nodes whose type is redrawn, uniformly.
    """

    max_count: int = 6
    max_distractors: int = 2
    background: tuple[int, int] = (16, 64)
    extra_edges: float = 0.5
    num_types: int = 4
    ood_counts: tuple[int, int] = (7, 18)
    ood_background: tuple[int, int] = (128, 256)
    copies: tuple[int, int] = (2, 3)
    rewired: float = 0.3
    retyped: float = 0.2

    def __post_init__(self) -> None:
        for name in ("background", "ood_counts", "ood_background", "copies"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"motifs: {name}=({low}, {high}) is empty. Pass the smaller end first.")
        # A background no larger than a motif could be counted as the other side of a root's bridge.
        smallest, largest = self.background[0], max(shape.num_nodes for shape in MOTIFS + DISTRACTORS)
        # Extra edges are drawn by rejection, which is fast while half of the pairs are free.
        extra, room = self.extra_edges * smallest, smallest * (smallest - 1) // 4
        rules = (
            (
                self.max_count >= 2,
                f"max_count={self.max_count} leaves no room between rare and common motifs, which split "
                "'mixture' needs. Use at least 2.",
            ),
            (
                self.max_distractors >= 0,
                f"max_distractors={self.max_distractors} is negative. Use 0 for no distractors.",
            ),
            (
                1 <= self.num_types <= 256,
                f"num_types={self.num_types}, but a type is one byte. Use 1 to 256.",
            ),
            (
                smallest > largest,
                f"a background of {smallest} nodes could be mistaken for a gadget of {largest}. "
                f"Use at least {largest + 1} nodes.",
            ),
            (
                self.extra_edges >= 0,
                f"extra_edges={self.extra_edges}, expected 0 or more. Use 0 for a tree.",
            ),
            (
                # Infinity cannot be rounded.
                extra <= room and smallest - 1 + round(extra) <= room,
                f"extra_edges={self.extra_edges} asks for {smallest - 1 + extra:g} edges among {smallest} background "
                f"nodes, above half of all pairs ({room}). Lower extra_edges or raise the smallest background.",
            ),
            (
                self.ood_counts[0] > self.max_count,
                f"ood_counts starts at {self.ood_counts[0]}, inside the training range 0..{self.max_count}. "
                f"Start it at {self.max_count + 1} or above.",
            ),
            (
                self.ood_background[0] > self.background[1],
                f"ood_background starts at {self.ood_background[0]}, inside the training range {self.background}. "
                f"Start it at {self.background[1] + 1} or above.",
            ),
            (self.copies[0] >= 2, f"copies={self.copies} includes {self.copies[0]}, which replicates nothing."),
            *(
                (
                    0 <= getattr(self, name) <= 1,
                    f"{name}={getattr(self, name)} is not a share. Use a number from 0 to 1.",
                )
                for name in ("rewired", "retyped")
            ),
        )
        for holds, problem in rules:
            if not holds:
                raise ValueError(f"motifs: {problem}")


@dataclass(frozen=True, eq=False)
class MotifGraph:
    """Census graph: model inputs (types, marker, edges) and targets (counts).

    Shapes:
        types [nodes] uint8, marker [nodes] bool (the root marker, shared by motifs and distractors),
        planted [nodes] uint8 (gadget with its root here: 0 none, 1-6 a motif, 7-12 a distractor; not an input),
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
    """Return the disjoint union: nodes one graph after the other, counts added."""
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


class MotifDataset(Packed[MotifGraph]):
    """Packed arrays of :class:`MotifGraph`; edges are numbered inside each graph."""

    graph_type = MotifGraph
    per_node = ("types", "marker", "planted")
    per_edge = ("edges",)
    starts = ("node_start", "edge_start")


@dataclass(frozen=True, eq=False)
class MotifBatch:
    """Node features (one-hot type, root marker), directed edges, the graph of each node, and ``log(1 + count)``.

    ``planted`` is the gadget whose root a node is, 0 for none: a node label that is not an input of readouts.
    """

    x: Float[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    batch: Int[Tensor, " nodes"]
    target: Float[Tensor, "graphs motifs"]
    planted: Int[Tensor, " nodes"]

    @property
    def num_graphs(self) -> int:
        return len(self.target)

    def to_data(self) -> Data:
        """Return the same graphs as a PyG ``Data``."""
        return Data(**vars(self))


def collate(dataset: MotifDataset, graphs: NDArray[np.int64], num_types: int) -> MotifBatch:
    """Join some graphs of a data set, in the given order."""
    nodes, node_graph = ragged(dataset.node_start, graphs)
    edges, edge_graph = ragged(dataset.edge_start, graphs)
    sizes = np.diff(dataset.node_start)[graphs]
    offset = np.cumsum(sizes) - sizes
    forward = torch.from_numpy(dataset.edges[:, edges] + offset[edge_graph])
    x = torch.zeros(len(nodes), num_types + 1)
    x[torch.arange(len(nodes)), torch.from_numpy(dataset.types[nodes].astype(np.int64))] = 1.0
    x[:, num_types] = torch.from_numpy(dataset.marker[nodes]).float()
    return MotifBatch(
        x=x,
        edge_index=torch.cat([forward, forward.flip(0)], dim=1),
        batch=torch.from_numpy(node_graph),
        target=torch.from_numpy(np.log1p(dataset.counts[graphs]).astype(np.float32)),
        planted=torch.from_numpy(dataset.planted[nodes].astype(np.int64)),
    )
