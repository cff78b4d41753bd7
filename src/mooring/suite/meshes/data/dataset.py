"""Packed data sets of meshes, generated in parallel and cached on disk, and batches as tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from mooring.suite import generated
from mooring.suite.meshes.data.mesh import KINDS, Mesh
from mooring.suite.meshes.data.plate import SPLITS, PlateSettings
from mooring.suite.meshes.data.problems import generate
from mooring.suite.packed import Packed, ragged
from mooring.suite.records.identity import Identity

# Part of the cache key: raise it when the same settings would give other meshes.
_VERSION = 1
# Nodes per message between processes: about a second of work.
_CHUNK_NODES = 15_000


class MeshDataset(Packed[Mesh]):
    """Packed arrays of :class:`Mesh`; the nodes of a cell are numbered inside each mesh."""

    graph_type = Mesh
    per_node = ("position", "coefficient", "source", "kind", "value", "solution")
    per_edge = ("cells",)
    starts = ("node_start", "cell_start")

    @cached_property
    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each edge of the triangles once, numbered inside its mesh, ``[2, edges]``; and where each mesh begins."""
        pairs = edges_of(self.cells.astype(np.int64) + np.repeat(self.node_start[:-1], np.diff(self.cell_start)))
        mesh = np.searchsorted(self.node_start, pairs[0], side="right") - 1
        start = np.concatenate([[0], np.cumsum(np.bincount(mesh, minlength=len(self)))])
        return pairs - self.node_start[mesh], start


def edges_of(cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return every edge of some triangles once, sorted by its nodes, ``[2, edges]``."""
    sides = np.concatenate([cells[[0, 1]], cells[[1, 2]], cells[[2, 0]]], axis=1).astype(np.int64)
    nodes = int(cells.max()) + 1
    return np.stack(np.divmod(np.unique(sides.min(0) * nodes + sides.max(0)), nodes))


def generate_many(settings: PlateSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> MeshDataset:
    """Return the first meshes of a split, the same for any number of worker processes."""
    if split not in SPLITS:
        raise ValueError(f"meshes: unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
    make, title = partial(generate, settings, split, seed=seed), f"meshes: {settings.physics}, {split}"
    chunk = max(1, _CHUNK_NODES // settings.nodes[1])
    return generated.pack(MeshDataset, make, num_graphs, task="meshes", title=title, chunk=chunk, workers=workers)


def cached(
    settings: PlateSettings,
    split: str,
    num_graphs: int,
    seed: int,
    *,
    workers: int = 1,
    folder: Path | None = None,
) -> MeshDataset:
    """Return :func:`generate_many` from the cache in ``folder``, see :func:`mooring.suite.generated.from_cache`."""
    config = {"version": _VERSION, **asdict(settings), "split": split, "num_meshes": num_graphs}
    return generated.from_cache(
        MeshDataset,
        f"{settings.physics}-{split}-{generated.cache_key(config, seed)}",
        Identity("meshes", "", seed, config),
        lambda: generate_many(settings, split, num_graphs, seed, workers=workers),
        folder,
    )


@dataclass(frozen=True, eq=False)
class MeshBatch:
    """Meshes joined as PyG joins graphs: nodes sorted by mesh, every edge in both directions.

    Args:
        x: position, coefficient, source, one column for each kind of node, value.
        position: of the nodes.
        edge_attr: offset from sender to receiver, and its length, in units of the spacing.
        y: the solution.
    """

    x: Float[Tensor, "nodes features"]
    position: Float[Tensor, "nodes 2"]
    edge_index: Int[Tensor, "2 edges"]
    edge_attr: Float[Tensor, "edges 3"]
    batch: Int[Tensor, " nodes"]
    ptr: Int[Tensor, " offsets"]
    y: Float[Tensor, " nodes"]

    @property
    def num_graphs(self) -> int:
        return len(self.ptr) - 1

    def to_data(self) -> Data:
        """Return the batch as PyG's ``Data``."""
        return Data(**{"pos" if name == "position" else name: value for name, value in vars(self).items()})


def collate(dataset: MeshDataset, meshes: NDArray[np.int64], spacing: float) -> MeshBatch:
    """Join some meshes of a data set, in the given order; edge offsets are in units of the spacing."""
    nodes, node_mesh = ragged(dataset.node_start, meshes)
    pairs, start = dataset.edges
    edges, edge_mesh = ragged(start, meshes)
    ptr = np.concatenate([[0], np.cumsum(np.diff(dataset.node_start)[meshes])])
    once = pairs[:, edges] + ptr[edge_mesh]
    position = dataset.position[nodes]
    columns = [position, dataset.coefficient[nodes, None], dataset.source[nodes]]
    columns += [np.eye(len(KINDS), dtype=np.float32)[dataset.kind[nodes]], dataset.value[nodes]]
    edge_index = np.concatenate([once, once[::-1]], axis=1)
    offset = (position[edge_index[1]] - position[edge_index[0]]) / np.float32(spacing)
    length = np.linalg.norm(offset, axis=1, keepdims=True)
    return MeshBatch(
        x=torch.from_numpy(np.concatenate(columns, axis=1)),
        position=torch.from_numpy(position),
        edge_index=torch.from_numpy(edge_index),
        edge_attr=torch.from_numpy(np.concatenate([offset, length], axis=1)),
        batch=torch.from_numpy(node_mesh),
        ptr=torch.from_numpy(ptr),
        y=torch.from_numpy(dataset.solution[nodes]),
    )


def num_features(settings: PlateSettings) -> int:
    """Return the number of columns of ``x``."""
    return len(scales(settings)[0])


def scales(settings: PlateSettings) -> tuple[list[float], list[float], float]:
    """Return typical means and deviations of the columns of ``x``, and a typical size of the solution.

    They are rounded and the same for all data sets of one physics, so a network is built without any data.
    """
    heat = settings.physics == "heat"
    columns = [(0.5, 0.3)] * 2 + [(0.0, 0.8 if heat else 0.5)] + ([(0.0, 7.0)] if heat else [(0.0, 0.5)] * 2)
    # Of ten nodes eight are inside, one is fixed, and the other one is loaded or free.
    columns += [(share, 0.3) for share in (0.8, 0.1, 0.05, 0.05)]
    columns += [(0.0, 0.4)] if heat else [(0.0, 0.15)] * 2
    means, deviations = zip(*columns, strict=True)
    return list(means), list(deviations), 1.3 if heat else 2.6
