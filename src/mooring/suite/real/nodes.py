"""Classification of the nodes of one large heterophilous graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from mooring import ops
from mooring.models import Adjacency
from mooring.models.layers import ConvName
from mooring.suite.real.data import NODE_SETS, NodeSet, data_folder, generated_nodes, load_nodes
from mooring.suite.real.data.catalogue import Metric
from mooring.suite.real.data.graphs import Split
from mooring.suite.real.experiment import RealConfig, RealExperiment
from mooring.suite.real.metrics import loss_of, score
from mooring.suite.train.config import TrainConfig
from mooring.suite.train.experiment import register_experiment

# Convolutions that Adjacency computes as matrix products; the others send a message along every edge.
MULTIPLIED = ("SAGEConv", "GCNConv")


@dataclass(frozen=True)
class NodeConfig(RealConfig):
    """Options of :class:`RealConfig`, for one graph; every update uses all of it."""

    steps_per_epoch: int = 10
    conv: ConvName = "SAGEConv"
    norm: Literal["batch", "layer", "none"] = "layer"

    at_least_one: ClassVar[tuple[str, ...]] = ("steps_per_epoch",)


@dataclass(frozen=True, eq=False)
class WholeGraph:
    """One graph as tensors, with its plan, shared by all updates; ``edges`` are what the convolutions take."""

    x: Tensor
    edge_index: Tensor
    edges: Any
    y: Tensor
    plan: ops.Plan

    def inputs(self) -> dict[str, Any]:
        """Return the arguments of :class:`mooring.models.GNN`."""
        return {"x": self.x, "edge_index": self.edges, "plan": self.plan}

    def to_data(self) -> Data:
        """Return the graph as a PyG ``Data``, for drawing."""
        return Data(x=self.x, edge_index=self.edge_index, y=self.y)


FULL = NodeConfig(epochs=60, dataset="minesweeper", memory_after=(1, 3), learning_rate=3e-3)
TINY = NodeConfig(epochs=2, steps_per_epoch=3, channels=16, layers=2, memory_after=(0, 1)).but(slots=3, heads=2)


@register_experiment
class NodeExperiment(RealExperiment):
    """Binary classification of the nodes of a graph; seed s uses the official split s modulo their number."""

    name = "nodes"
    sets = tuple(NODE_SETS)
    presets: ClassVar[Mapping[str, TrainConfig]] = {"tiny": TINY, "quick": FULL.but(epochs=12), "full": FULL}
    # Dense attention over ten thousand nodes has a hundred million weights per head and layer; Performer is linear.
    models = (
        *("none", "ogb-vn-mean", "ogb-vn", "vn-sum", "vn-log-sum", "cross-attn", "anchored", "moored", "lse", "gmt"),
        *("performer", "exphormer"),
    )
    select = ("roc_auc", "max")
    config: NodeConfig

    @property
    def metric(self) -> Metric:
        return "roc_auc"

    def nodes(self) -> NodeSet:
        """Return the set."""
        return _nodes(self.config.dataset, data_folder())

    def mask(self, split: Split) -> Tensor:
        """Return the mask of a split, in the official split of this seed."""
        nodes = self.nodes()
        return torch.from_numpy(nodes.masks[split][self.seed % nodes.num_splits])

    def build(self) -> nn.Module:
        return self.network(self.nodes().x.shape[1], 1)

    def train_batch(self, epoch: int, step: int) -> WholeGraph:
        return _whole(self.config.dataset, self.config.conv in MULTIPLIED, data_folder())

    def loss(self, net: nn.Module, batch: WholeGraph, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        train = self.mask("train")
        return loss_of(True, net(**batch.inputs())[train], batch.y[train]), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return {"roc_auc": self._score(net, "valid")}

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        nodes = self.nodes()
        data = {"name": nodes.name, "sha256": nodes.sha256, "split": self.seed % nodes.num_splits}
        return {"test/roc_auc": self._score(net, "test")}, {"data": data, "metric": self.metric}

    def _score(self, net: nn.Module, split: Split) -> float:
        batch, mask = self.train_batch(0, 0), self.mask(split)
        return score("roc_auc", net(**batch.inputs())[mask], batch.y[mask])


def _nodes(dataset: str, folder: Path) -> NodeSet:
    return generated_nodes() if dataset == "generated" else load_nodes(dataset, folder)


@lru_cache(maxsize=2)
def _whole(dataset: str, multiplied: bool, folder: Path) -> WholeGraph:
    nodes = _nodes(dataset, folder)
    x, y = torch.from_numpy(nodes.x), torch.from_numpy(nodes.y).unsqueeze(1)
    forward = torch.from_numpy(nodes.edge.T.copy())
    edge_index = torch.cat([forward, forward.flip(0)], dim=1)
    edges = Adjacency(edge_index, len(x)) if multiplied else edge_index
    return WholeGraph(x, edge_index, edges, y, ops.plan(num_nodes=len(x)))
