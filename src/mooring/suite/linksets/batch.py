"""Link-set graphs as tensors: one batch of many graphs, turned at random for training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mooring.suite.linksets.data import LinkDataset


@dataclass(frozen=True, eq=False)
class LinkBatch:
    """Nodes, the graph of each, candidate pairs (numbered over the batch) with their sectors at either end.

    Parity is -1 or 1; weight is the logarithm of the link's weight.
    """

    position: Float[Tensor, "nodes 2"]
    orientation: Float[Tensor, " nodes"]
    gain: Float[Tensor, " nodes"]
    parity: Float[Tensor, " nodes"]
    batch: Int[Tensor, " nodes"]
    pairs: Int[Tensor, "2 pairs"]
    sector: Int[Tensor, "2 pairs"]
    weight: Float[Tensor, " pairs"]
    target: Float[Tensor, " pairs"]
    num_graphs: int


def collate(
    dataset: LinkDataset, graphs: NDArray[np.int64], sectors: int, rng: np.random.Generator | None = None
) -> LinkBatch:
    """Join some graphs of a dataset, in the order given.

    Args:
        dataset: Where they are from.
        graphs: Their numbers.
        sectors: Sectors of a node.
        rng: Given for training: each graph is rotated, mirrored and has its parities exchanged at random. None of
            these changes a distance, a weight or which pairs share a sector, so the optimum stays what it was.
    """
    nodes, node_graph = ragged(dataset.node_start, graphs)
    edges, pair_graph = ragged(dataset.pair_start, graphs)
    sizes = np.diff(dataset.node_start)[graphs]
    offset = np.cumsum(sizes) - sizes
    position, orientation = dataset.position[nodes], dataset.orientation[nodes]
    parity = 2.0 * dataset.parity[nodes] - 1.0
    sector = dataset.sector[:, edges].astype(np.int64)
    if rng is not None:
        angle = rng.uniform(0, 2 * math.pi, len(graphs))
        mirrored, exchanged = rng.random((2, len(graphs))) < 0.5
        position, orientation = turn(position, orientation, angle[node_graph], mirrored[node_graph])
        parity = np.where(exchanged[node_graph], -parity, parity)
        sector = np.where(mirrored[pair_graph], sectors - 1 - sector, sector)
    return LinkBatch(
        position=_float(position),
        orientation=_float(orientation),
        gain=_float(dataset.gain[nodes]),
        parity=_float(parity),
        batch=torch.from_numpy(node_graph),
        pairs=torch.from_numpy(dataset.pairs[:, edges] + offset[pair_graph]),
        sector=torch.from_numpy(sector),
        weight=_float(np.log(dataset.weight[edges])),
        target=_float(dataset.chosen[edges]),
        num_graphs=len(graphs),
    )


def turn(
    position: NDArray[np.float64],
    orientation: NDArray[np.float64],
    angle: NDArray[np.float64],
    mirrored: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mirror some nodes at the x axis, then rotate all; returns positions and orientations.

    A mirrored antenna counts its sectors the other way round, so sector k becomes the last but k.
    """
    sign = np.where(mirrored, -1.0, 1.0)
    x, y = position[:, 0], sign * position[:, 1]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=1), sign * orientation + angle


def ragged(start: NDArray[np.int64], graphs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of every element of some graphs, and which of those graphs each belongs to."""
    sizes = np.diff(start)[graphs]
    owner = np.repeat(np.arange(len(graphs)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    return start[graphs][owner] + within, owner


def _float(values: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
