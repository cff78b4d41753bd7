"""Learned solvers on plates with holes, as an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mooring import zoo
from mooring.models.layers import LINEAR, ConvName
from mooring.nn import MemoryOptions
from mooring.suite.meshes.data import (
    BEYOND,
    MeshBatch,
    MeshDataset,
    PlateSettings,
    cached,
    collate,
    num_features,
    scales,
)
from mooring.suite.meshes.model import MeshNet, relative_errors
from mooring.suite.train.config import FiniteConfig, MemoryConfig, OutOfRange
from mooring.suite.train.engines import cores
from mooring.suite.train.experiment import FiniteExperiment, register_experiment
from mooring.suite.train.memories import check_model, describe, memory_of

# An evaluation batch has about this many nodes.
EVALUATION_NODES = 20_000
# Fewer nodes than this are made faster than processes start.
PARALLEL_NODES = 100_000


@dataclass(frozen=True)
class MeshConfig(FiniteConfig, MemoryConfig):
    """Training, plates, network and memory.

    Args:
        batch_size, train_graphs, warmup_epochs: as in :class:`~mooring.suite.train.config.FiniteConfig`; a graph is
            a mesh.
        plates: physics, nodes and holes, see :class:`~mooring.suite.meshes.data.PlateSettings`.
        data_seed: seed of the meshes, which runs of all models and seeds share.
        validation_graphs, test_graphs: meshes of these splits.
        beyond_graphs: meshes of each split beyond training (finer, more holes, larger); 0 leaves these splits out.
        channels, layers, conv: as in :class:`mooring.models.GNN`; the nodes are normalised before each layer.
        memory_after: numbers of the layers that a memory follows; None is all of them.
        carry: as in :class:`mooring.models.GNN`.
        waves: octaves of sines and cosines of its position that every node is shown; 0 shows none.
        memory: options of the global modules.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    clip_norm: float | None = 1.0
    batch_size: int = 4
    train_graphs: int = 1000
    plates: PlateSettings = PlateSettings()
    data_seed: int = 0
    validation_graphs: int = 50
    test_graphs: int = 100
    beyond_graphs: int = 50
    channels: int = 64
    layers: int = 4
    conv: ConvName = "MeshGraphNetConv"
    memory_after: tuple[int, ...] | None = None
    carry: bool | None = None
    waves: int = 0
    memory: MemoryOptions = MemoryOptions(slots=32, init_std=0.02)

    at_least_one: ClassVar[tuple[str, ...]] = ("validation_graphs", "test_graphs", "channels", "layers")
    not_negative: ClassVar[tuple[str, ...]] = ("data_seed", "beyond_graphs", "waves")

    def __post_init__(self) -> None:
        super().__post_init__()
        who, places = type(self).__name__, self.places
        if not places or len(set(places)) < len(places) or any(not 0 <= place < self.layers for place in places):
            got = ",".join(map(str, places)) or "empty"
            raise OutOfRange(
                who,
                f"memory_after is {got}, expected different numbers from 0 to {self.layers - 1}, as there are "
                f"{self.layers} layers, or none for all. For a network without a memory pass --models none.",
            )
        if self.conv in LINEAR:
            raise OutOfRange(who, f"conv={self.conv} sees no edge features, expected one that does.")

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the layers that a memory follows."""
        return tuple(range(self.layers)) if self.memory_after is None else self.memory_after

    def num_graphs(self, split: str) -> int:
        """Number of meshes of a split."""
        return getattr(self, f"{'beyond' if split in BEYOND else split}_graphs")


HEAT = MeshConfig(epochs=8, steps_per_epoch=250)
# Fewer and larger meshes, one at a time: as many nodes per update as six to sixty of the small ones.
LARGE = HEAT.but(nodes=(5_000, 50_000), batch_size=1, train_graphs=200, steps_per_epoch=200, epochs=5).but(
    validation_graphs=10, test_graphs=20, beyond_graphs=5
)
# For one size changed at a time. Few of the largest meshes fit into memory, so there are few of every size.
NODES = HEAT.but(batch_size=1, train_graphs=100, steps_per_epoch=100, epochs=5).but(
    validation_graphs=10, test_graphs=20, beyond_graphs=0
)
QUICK = HEAT.but(epochs=6, steps_per_epoch=75, train_graphs=300, channels=32).but(
    validation_graphs=20, test_graphs=40, beyond_graphs=20
)
TINY = HEAT.but(
    epochs=2, steps_per_epoch=3, batch_size=3, train_graphs=11, channels=16, layers=2, slots=5, heads=2
).but(nodes=(40, 60), holes=(0, 1), more_holes=(2, 2), validation_graphs=5, test_graphs=3, beyond_graphs=2)


@register_experiment
class MeshExperiment(FiniteExperiment):
    """Predict the solution at every node; the meshes are the same for every model and seed."""

    name: ClassVar[str] = "meshes"
    presets: ClassVar[Mapping[str, MeshConfig]] = {
        "tiny": TINY,
        "quick": QUICK,
        "heat": HEAT,
        "elasticity": HEAT.but(physics="elasticity"),
        "heat-large": LARGE,
        "slots": HEAT,
        "nodes": NODES,
    }
    models: ClassVar[tuple[str, ...]] = ("none", "vn", "cross-attn", "anchored", "physics-attention")
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("error", "min")
    requires: ClassVar[Mapping[str, str]] = {"skfem": "mooring[meshes]"}
    config: MeshConfig

    def __init__(self, config: MeshConfig, model: str, seed: int) -> None:
        check_model(model)
        super().__init__(config, model, seed)

    def describe(self) -> dict[str, Any]:
        return describe(self.model)

    def build(self) -> MeshNet:
        config = self.config
        # Self-addressed slots have no keys for the read; they get the same budget as slots found by content.
        reference = replace(config.memory, routing="free").at(config.channels)
        memory = memory_of(self.model, config.memory, budget=zoo.size("anchored", reference))
        places: dict[str, Any] = {"memory_after": config.places, "carry": config.carry} if memory is not None else {}
        net = MeshNet(
            num_features(config.plates),
            config.channels,
            config.layers,
            waves=config.waves,
            conv=config.conv,
            norm="layer",
            pre_norm=True,
            memory=memory,
            **places,
        )
        net.set_scale(*scales(config.plates))
        return net

    def train_batch(self, epoch: int, step: int) -> MeshBatch:
        return collate(self.meshes("train"), self.chosen(epoch, step), self.config.plates.spacing)

    def loss(self, net: nn.Module, batch: MeshBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        return errors(net, batch).mean(), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return {"error": float(self.split_errors(net, "validation").mean())}

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        metrics: dict[str, float] = {}
        by_mesh: dict[str, dict[str, list[float]]] = {}
        splits = ("test", *(BEYOND if self.config.beyond_graphs else ()))
        for split in splits:
            relative, nodes = self.split_errors(net, split), np.diff(self.meshes(split).node_start)
            metrics[f"{split}/error"] = float(relative.mean())
            by_mesh[split] = {"nodes": nodes.tolist(), "error": [round(error, 6) for error in relative.tolist()]}
        hashes = {split: self.meshes(split).sha256() for split in (*splits, "train")}
        return metrics, {"data": hashes, "by_mesh": by_mesh}

    def meshes(self, split: str) -> MeshDataset:
        """Return the meshes of a split."""
        config = self.config
        return _remembered(config.plates, split, config.num_graphs(split), config.data_seed)

    def split_errors(self, net: nn.Module, split: str) -> Tensor:
        """Return the relative error of every mesh of a split, in its order."""
        meshes = self.meshes(split)
        # Cut where the number of nodes passes another multiple.
        cuts = np.flatnonzero(np.diff(meshes.node_start[1:] // EVALUATION_NODES)) + 1
        parts = np.split(np.arange(len(meshes)), cuts)
        return torch.cat([errors(net, collate(meshes, part, self.config.plates.spacing)) for part in parts])


def errors(net: nn.Module, batch: MeshBatch) -> Tensor:
    """Return the relative error of the prediction for each mesh of a batch."""
    prediction = net(batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr)
    return relative_errors(prediction, batch.y, batch.batch, batch.num_graphs)


@lru_cache(maxsize=12)
def _remembered(settings: PlateSettings, split: str, num_meshes: int, seed: int) -> MeshDataset:
    workers = cores() if num_meshes * settings.nodes[1] > PARALLEL_NODES else 1
    return cached(settings, split, num_meshes, seed, workers=workers)
