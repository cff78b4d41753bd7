"""Packed data sets of link-set graphs, generated in parallel and cached on disk, and batches as tensors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from mooring.suite import generated
from mooring.suite.linksets.data.generator import generate
from mooring.suite.linksets.data.graph import STATUS_OPTIMAL, LinkGraph, LinkSettings
from mooring.suite.packed import Packed, ragged
from mooring.suite.records.identity import Identity

# Part of the cache key: increase it if the same settings give other graphs.
_VERSION = 1
_CHUNK = 20  # graphs per message between processes: about 0.4 s of work


class LinkDataset(Packed[LinkGraph]):
    """Packed arrays of :class:`LinkGraph`; pairs are numbered inside each graph."""

    graph_type = LinkGraph
    per_node = ("position", "orientation", "gain", "parity")
    per_edge = ("weight", "pairs", "sector", "chosen")
    starts = ("node_start", "pair_start")

    @property
    def all_optimal(self) -> bool:
        """Whether the solver proved every link set optimal."""
        return bool((self.status == STATUS_OPTIMAL).all())


def generate_many(settings: LinkSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> LinkDataset:
    """Generate the first graphs of a split; the result does not depend on the number of worker processes."""
    settings.size_range(split)
    make, title = partial(generate, settings, split, seed=seed), f"link sets, {split}"
    return generated.pack(LinkDataset, make, num_graphs, task="linksets", title=title, chunk=_CHUNK, workers=workers)


def cached(
    settings: LinkSettings,
    split: str,
    num_graphs: int,
    seed: int,
    *,
    workers: int = 1,
    folder: Path | None = None,
) -> LinkDataset:
    """Return :func:`generate_many` from the cache in ``folder``, see :func:`mooring.suite.generated.from_cache`."""
    graphs = settings, split, num_graphs, seed
    name, identity = f"{split}-{cache_key(*graphs)}", cache_identity(*graphs)
    return generated.from_cache(LinkDataset, name, identity, lambda: generate_many(*graphs, workers=workers), folder)


def cache_identity(settings: LinkSettings, split: str, num_graphs: int, seed: int) -> Identity:
    """Return the identity of a set of graphs, which does not depend on any model."""
    config = {"version": _VERSION, **asdict(settings), "split": split, "num_graphs": num_graphs}
    return Identity("linksets", "", seed, config)


def cache_key(settings: LinkSettings, split: str, num_graphs: int, seed: int) -> str:
    """Return the cache key of these graphs, a hash of the arguments."""
    return generated.cache_key(_VERSION, asdict(settings), split, num_graphs, seed)


@dataclass(frozen=True, eq=False)
class LinkBatch:
    """Nodes, their graphs, and candidate pairs (numbered over the batch) with their sectors at either end.

    Parity is -1 or 1; ``weight`` is the logarithm of the link's weight.
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

    def to_data(self) -> Data:
        """Return the nodes of all graphs as a PyG ``Data``, with the optimal links as edges."""
        nodes = {"pos": self.position, "batch": self.batch, "gain": self.gain, "parity": self.parity}
        return Data(edge_index=self.pairs[:, self.target > 0.5], num_nodes=len(self.gain), **nodes)


def collate(
    dataset: LinkDataset, graphs: NDArray[np.int64], sectors: int, rng: np.random.Generator | None = None
) -> LinkBatch:
    """Join some graphs of a data set, in the given order.

    With ``rng``, for training, each graph is rotated, mirrored and has its parities exchanged at random. These preserve
    distances, weights and which pairs share a sector, so the optimum does not change.
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
    """Mirror some nodes at the x axis, then rotate all; return positions and orientations.

    Mirroring reverses the order of the sectors, so sector k becomes ``sectors - 1 - k``.
    """
    sign = np.where(mirrored, -1.0, 1.0)
    x, y = position[:, 0], sign * position[:, 1]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=1), sign * orientation + angle


def _float(values: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
