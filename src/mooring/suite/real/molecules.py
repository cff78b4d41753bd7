"""Experiments on molecules and peptides, with one or a few targets per graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mooring.models import CategoryEncoder, PositionEncoder
from mooring.models.readout import ReadoutName
from mooring.nn import MemoryOptions, SlotAggregation
from mooring.suite.real.config import RealConfig, RealExperiment, known
from mooring.suite.real.data import GRAPH_SETS, GraphBatch, GraphSet, collate, generated_graphs, load_graphs
from mooring.suite.real.data.catalogue import ATOMS, BONDS, Metric
from mooring.suite.real.data.encodings import Encoding, encoded
from mooring.suite.real.data.packed import Split
from mooring.suite.real.metrics import loss_of, official, score
from mooring.suite.train.config import OutOfRange, TrainConfig
from mooring.suite.train.experiment import register_experiment, shuffled

EVALUATION_BATCH = 256
GENERATED_GRAPHS = 60

MODELS = ("none", "ogb-vn-mean", "ogb-vn", "cross-attn", "anchored", "moored", "lse", "gmt", "transformer", "exphormer")


@dataclass(frozen=True)
class GraphConfig(RealConfig):
    """Options of :class:`RealConfig`, for a set of graphs.

    Args:
        batch_size: graphs per step.
        readout: as in :class:`mooring.models.Readout`; ``"slots"`` has the slots and heads of the memory.
        encoding: random-walk probabilities or Laplacian eigenvectors by PyG's transforms, or none.
        encoding_width: number of walk steps or eigenvectors.
        train_graphs: number of training graphs to use, evenly spaced; all if None.
        evaluation_graphs: the same for the validation and test graphs.
    """

    batch_size: int = 32
    readout: ReadoutName = "mean"
    encoding: Encoding = "none"
    encoding_width: int = 16
    train_graphs: int | None = None
    evaluation_graphs: int | None = None

    at_least_one: ClassVar[tuple[str, ...]] = ("batch_size", "encoding_width", "train_graphs", "evaluation_graphs")

    def check_ranges(self) -> None:
        super().check_ranges()
        if self.train_graphs is not None and self.train_graphs < 2:
            # Targets are divided by their standard deviation.
            raise OutOfRange(type(self).__name__, f"train_graphs={self.train_graphs}, expected 2 or more, or none.")


class GraphExperiment(RealExperiment):
    """Prediction of the targets of whole graphs, on the official split for every seed."""

    config: GraphConfig
    #: The sets of the task.
    sets: ClassVar[tuple[str, ...]]

    def __init__(self, config: GraphConfig, model: str, seed: int) -> None:
        known(config, self.name, self.sets)
        super().__init__(config, model, seed)

    @classmethod
    def steps_of(cls, config: GraphConfig) -> int:
        generated = int(0.7 * GENERATED_GRAPHS)
        available = generated if config.dataset == "generated" else GRAPH_SETS[config.dataset].train
        # An incomplete batch is skipped; another epoch has another order.
        return max(min(available, config.train_graphs or available) // config.batch_size, 1)

    @property
    def metric(self) -> Metric:
        generated: Metric = "rmse" if self.name == "molecules" else "average_precision"
        return generated if self.config.dataset == "generated" else GRAPH_SETS[self.config.dataset].metric

    @property
    def classifies(self) -> bool:
        return self.metric not in ("rmse", "mae")

    @cached_property
    def graphs(self) -> GraphSet:
        """The set, with its encodings."""
        config = self.config
        if config.dataset == "generated":
            targets = 1 if self.name == "molecules" else 3
            graphs = generated_graphs(GENERATED_GRAPHS, targets, classes=self.classifies)
        else:
            graphs = load_graphs(config.dataset)
        return encoded(graphs, config.encoding, config.encoding_width)

    def chosen(self, split: Split) -> NDArray[np.int64]:
        """Return the indices of the graphs of a split that are used."""
        config, numbers = self.config, self.graphs.splits[split]
        most = config.train_graphs if split == "train" else config.evaluation_graphs
        if most is None or most >= len(numbers):
            return numbers
        return numbers[np.linspace(0, len(numbers) - 1, most).round().astype(np.int64)]

    def build(self) -> nn.Module:
        config, graphs = self.config, self.graphs
        generated = config.dataset == "generated"
        atoms, bonds = (
            (ATOMS, BONDS) if generated else (GRAPH_SETS[config.dataset].atoms, GRAPH_SETS[config.dataset].bonds)
        )
        readout: Any = config.readout
        if readout == "slots":
            readout = SlotAggregation(config.channels, config.memory.slots, config.memory.heads)
        position = None
        if config.encoding != "none":
            flip = config.encoding == "laplacian"
            position = PositionEncoder(config.encoding_width, config.channels, flip=flip)
        return self.network(
            CategoryEncoder(atoms, config.channels),
            graphs.y.shape[1],
            edge_encoder=CategoryEncoder(bonds, config.channels),
            position=position,
            readout=readout,
            typical_size=float(np.diff(graphs.node_start)[graphs.splits["train"]].mean()),
        )

    def train_batch(self, epoch: int, step: int) -> GraphBatch:
        train = self.chosen("train")
        size = min(self.config.batch_size, len(train))
        return collate(self.graphs, shuffled(train, size, self.seed, epoch, step))

    @cached_property
    def scale(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the training targets, in which the network predicts; 0 and 1 for classes."""
        y = torch.from_numpy(self.graphs.y[self.chosen("train")])
        if self.classifies:
            return torch.zeros(y.size(1)), torch.ones(y.size(1))
        columns = [column[~column.isnan()] for column in y.T]
        mean, deviation = (torch.stack(list(map(statistic, columns))) for statistic in (torch.mean, torch.std))
        return mean, deviation.clamp(min=1e-6)

    def loss(self, net: nn.Module, batch: GraphBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        mean, deviation = self.scale
        return loss_of(self.classifies, net(**batch.inputs()), (batch.y - mean) / deviation), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return self._scores(*self.predict(net, "valid"))

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        prediction, target = self.predict(net, "test")
        metrics = {f"test/{name}": value for name, value in self._scores(prediction, target).items()}
        ogb_score = None if self.config.dataset == "generated" else official(self.config.dataset, prediction, target)
        if ogb_score is not None:
            metrics["test/ogb"] = ogb_score
        graphs = self.graphs
        return metrics, {"data": {"name": graphs.name, "sha256": graphs.sha256}, "metric": self.metric}

    def predict(self, net: nn.Module, split: Split) -> tuple[Tensor, Tensor]:
        """Return predictions in the units of the targets (logits for classes), and the targets."""
        mean, deviation = self.scale
        numbers = self.chosen(split)
        parts = np.split(numbers, range(EVALUATION_BATCH, len(numbers), EVALUATION_BATCH))
        batches = [collate(self.graphs, part) for part in parts]
        prediction = torch.cat([net(**batch.inputs()) for batch in batches])
        return prediction * deviation + mean, torch.cat([batch.y for batch in batches])

    def _scores(self, prediction: Tensor, target: Tensor) -> dict[str, float]:
        names: list[Metric] = (
            [self.metric] if self.classifies else [self.metric, "mae" if self.metric == "rmse" else "rmse"]
        )
        return {name: score(name, prediction, target) for name in names}


# OGB's baselines train 100 epochs of five layers 300 wide, those of Peptides-func have 500k parameters; these presets
# take two cores one night.
MOLECULES = GraphConfig(epochs=60, dataset="esol", memory_after=(1, 3))
PEPTIDES = GraphConfig(epochs=30, dataset="func", batch_size=64, memory_after=(1, 3))
TINY: dict[str, Any] = {
    "dataset": "generated",
    "epochs": 2,
    "channels": 16,
    "layers": 2,
    "memory_after": (0, 1),
    "batch_size": 13,
    "memory": MemoryOptions(slots=3, heads=2, init_std=0.02),
}


@register_experiment
class MoleculeExperiment(GraphExperiment):
    """OGB's molecules, one of its sets at a time: ``--set dataset=lipo``."""

    name: ClassVar[str] = "molecules"
    sets: ClassVar[tuple[str, ...]] = ("bace", "esol", "freesolv", "lipo", "hiv", "zinc")
    presets: ClassVar[Mapping[str, TrainConfig]] = {
        "tiny": GraphConfig(**TINY),
        "quick": MOLECULES.but(epochs=30),
        "full": MOLECULES,
        # One choice about the memory changed at a time, at development seeds.
        "choosing": MOLECULES.but(learning_rate=3e-3, carry=False),
        "hiv": MOLECULES.but(dataset="hiv", epochs=20, batch_size=128),
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("rmse", "min")


@register_experiment
class PeptideExperiment(GraphExperiment):
    """LRGB's Peptides-func: ten labels of graphs of 150 atoms."""

    name: ClassVar[str] = "peptides"
    sets: ClassVar[tuple[str, ...]] = ("func",)
    presets: ClassVar[Mapping[str, TrainConfig]] = {
        "tiny": GraphConfig(**TINY),
        "quick": PEPTIDES.but(epochs=8, train_graphs=1500, evaluation_graphs=500),
        "full": PEPTIDES,
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("average_precision", "max")
