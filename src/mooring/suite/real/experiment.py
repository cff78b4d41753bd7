"""Molecules and peptides: one network, any memory, the official split and metric of the set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mooring.models import GNN, CategoryEncoder, PositionEncoder
from mooring.models.layers import ConvName
from mooring.models.readout import ReadoutName
from mooring.named import suggest
from mooring.nn import MemoryOptions, SlotAggregation
from mooring.suite.real.data import GRAPH_SETS, GraphBatch, GraphSet, collate, generated_graphs, load_graphs
from mooring.suite.real.data.catalogue import ATOMS, BONDS, RISING, Metric
from mooring.suite.real.data.files import MissingData, load, require
from mooring.suite.real.data.graphs import Encoding, Split, encoded
from mooring.suite.real.metrics import loss_of, official, score
from mooring.suite.train.config import MemoryConfig, OutOfRange, TrainConfig
from mooring.suite.train.experiment import WarmedExperiment, register_experiment, shuffled
from mooring.suite.train.memories import check_model, describe, memory_of

EVALUATION_BATCH = 256
GENERATED_GRAPHS = 60


@dataclass(frozen=True)
class RealConfig(MemoryConfig):
    """Options of a run on real graphs: those of :class:`MemoryConfig` and of the network, :class:`mooring.models.GNN`.

    Args:
        steps_per_epoch: updates between two evaluations; 0 shows every training graph once.
        dataset: name of the set.
        channels, layers, conv, residual, memory_after, carry: as in :class:`mooring.models.GNN`.
        norm, log_size: as there; ``"none"`` for none.
        layer_dropout: its ``dropout``; the memory's own is called ``dropout``.
        warmup_epochs: epochs over which the learning rate rises, before it falls as a cosine.
    """

    steps_per_epoch: int = 0
    learning_rate: float = 1e-3
    dataset: str = "generated"
    channels: int = 64
    layers: int = 4
    conv: ConvName = "GINEConv"
    norm: Literal["batch", "layer", "none"] = "batch"
    residual: bool = True
    layer_dropout: float = 0.0
    memory: MemoryOptions = MemoryOptions(slots=8, init_std=0.02)
    memory_after: tuple[int, ...] | None = None
    carry: bool | None = None
    log_size: Literal["none", "nodes", "head"] = "none"
    warmup_epochs: float = 2.0

    at_least_one: ClassVar[tuple[str, ...]] = ("channels", "layers")
    not_negative: ClassVar[tuple[str, ...]] = ("steps_per_epoch", "layer_dropout", "warmup_epochs")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer_dropout >= 1:
            raise OutOfRange(type(self).__name__, f"layer_dropout={self.layer_dropout}, expected a share below 1.")
        places = self.memory_after
        if places is not None and (not places or any(not 0 <= place < self.layers for place in places)):
            got = ",".join(map(str, places)) or "empty"
            raise OutOfRange(
                type(self).__name__,
                f"memory_after is {got}, expected numbers from 0 to {self.layers - 1}, as there are {self.layers} "
                "layers, or none to let it choose. For a network without a memory pass --models none.",
            )


class RealExperiment(WarmedExperiment):
    """A task on real graphs."""

    config: RealConfig
    #: The sets of the task.
    sets: ClassVar[Sequence[str]]

    def __init__(self, config: RealConfig, model: str, seed: int) -> None:
        if config.dataset not in ("generated", *self.sets):
            meant = suggest(config.dataset, self.sets, f"the sets are {', '.join(self.sets)}.")
            raise OutOfRange(self.name, f"unknown dataset {config.dataset!r}; {meant}")
        check_model(model)
        if config.steps_per_epoch == 0:
            # The record contains the number of steps.
            config = replace(config, steps_per_epoch=self.steps_of(config))
        super().__init__(config, model, seed)
        metric = self.metric
        # The class attribute is for callers that have no set yet.
        self.select = (metric, "max" if metric in RISING else "min")  # type: ignore[misc]

    @classmethod
    def steps_of(cls, config: Any) -> int:
        """Return the number of updates that show every training graph once."""
        raise NotImplementedError

    @property
    def metric(self) -> Metric:
        """The official metric of the set."""
        raise NotImplementedError

    @property
    def generated(self) -> bool:
        """Whether the set is generated and not read from a file."""
        return self.config.dataset == "generated"

    def check_inputs(self) -> None:
        if not self.generated:
            require(self.config.dataset)

    def data_hash(self) -> str | None:
        try:
            return "" if self.generated else load(self.config.dataset).sha256
        except MissingData:
            return None

    def describe(self) -> dict[str, Any]:
        return describe(self.model)

    def network(self, encoder: int | nn.Module, targets: int, readout: Any = None, **options: Any) -> GNN:
        """Build the network of the config and the model, with the encoders of the set in ``options``."""
        config = self.config
        memory = memory_of(self.model, config.memory, one_graph=readout is None)
        if memory is not None:
            options |= {"memory_after": config.memory_after, "carry": config.carry}
        return GNN(
            encoder,
            config.channels,
            targets,
            config.layers,
            conv=config.conv,
            norm=None if config.norm == "none" else config.norm,
            dropout=config.layer_dropout,
            residual=config.residual,
            memory=memory,
            readout=readout,
            log_size=None if config.log_size == "none" else config.log_size,
            **options,
        )


@dataclass(frozen=True)
class GraphConfig(RealConfig):
    """Options of :class:`RealConfig`, for a set of graphs.

    Args:
        batch_size: graphs per step.
        readout: as in :class:`mooring.models.Readout`; ``"slots"`` has the slots and heads of the memory.
        encoding: random-walk probabilities or Laplacian eigenvectors by PyG's transforms, or none.
        encoding_width: number of walk steps or eigenvectors.
        train_graphs, evaluation_graphs: number of training graphs, and of validation and test graphs, to use, evenly
            spaced; all if None.
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
    models = (
        "none",
        "ogb-vn-mean",
        "ogb-vn",
        "cross-attn",
        "anchored",
        "moored",
        "lse",
        "gmt",
        "transformer",
        "exphormer",
    )
    #: Metric and number of targets of the generated set.
    trial: ClassVar[tuple[Metric, int]]

    @classmethod
    def steps_of(cls, config: GraphConfig) -> int:
        generated = int(0.7 * GENERATED_GRAPHS)
        available = generated if config.dataset == "generated" else GRAPH_SETS[config.dataset].train
        # An incomplete batch is skipped; another epoch has another order.
        return max(min(available, config.train_graphs or available) // config.batch_size, 1)

    @property
    def metric(self) -> Metric:
        return self.trial[0] if self.generated else GRAPH_SETS[self.config.dataset].metric

    @property
    def classifies(self) -> bool:
        return self.metric in RISING

    @cached_property
    def graphs(self) -> GraphSet:
        """The set, with its encodings."""
        config = self.config
        if self.generated:
            graphs = generated_graphs(GENERATED_GRAPHS, self.trial[1], classes=self.classifies)
        else:
            graphs = load_graphs(config.dataset)
        return encoded(graphs, config.encoding, config.encoding_width)

    def chosen(self, split: Split) -> NDArray[np.int64]:
        """Return the indices of the graphs of a split that are used."""
        numbers = self.graphs.splits[split]
        most = self.config.train_graphs if split == "train" else self.config.evaluation_graphs
        if most is None or most >= len(numbers):
            return numbers
        return numbers[np.linspace(0, len(numbers) - 1, most).round().astype(np.int64)]

    def build(self) -> nn.Module:
        config, graphs = self.config, self.graphs
        source = None if self.generated else GRAPH_SETS[config.dataset]
        atoms, bonds = (source.atoms, source.bonds) if source else (ATOMS, BONDS)
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
            readout,
            edge_encoder=CategoryEncoder(bonds, config.channels),
            position=position,
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
        ogb_score = None if self.generated else official(self.config.dataset, prediction, target)
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
        other: list[Metric] = [] if self.classifies else ["mae" if self.metric == "rmse" else "rmse"]
        return {name: score(name, prediction, target) for name in (self.metric, *other)}


# OGB's baselines train 100 epochs of five layers 300 wide, those of Peptides-func have 500k parameters; these presets
# take two cores one night.
MOLECULES = GraphConfig(epochs=60, dataset="esol", memory_after=(1, 3))
PEPTIDES = GraphConfig(epochs=30, dataset="func", batch_size=64, memory_after=(1, 3))
TINY = GraphConfig(epochs=2, batch_size=13, channels=16, layers=2, memory_after=(0, 1)).but(slots=3, heads=2)


@register_experiment
class MoleculeExperiment(GraphExperiment):
    """OGB's molecules, one of its sets at a time: ``--set dataset=lipo``."""

    name = "molecules"
    sets = ("bace", "esol", "freesolv", "lipo", "hiv", "zinc")
    trial = ("rmse", 1)
    presets: ClassVar[Mapping[str, TrainConfig]] = {
        "tiny": TINY,
        "quick": MOLECULES.but(epochs=30),
        "full": MOLECULES,
        # One choice about the memory changed at a time, at development seeds.
        "choosing": MOLECULES.but(learning_rate=3e-3, carry=False),
        "hiv": MOLECULES.but(dataset="hiv", epochs=20, batch_size=128),
    }
    select = ("rmse", "min")


@register_experiment
class PeptideExperiment(GraphExperiment):
    """LRGB's Peptides-func: ten labels of graphs of 150 atoms."""

    name = "peptides"
    sets = ("func",)
    trial = ("average_precision", 3)
    presets: ClassVar[Mapping[str, TrainConfig]] = {
        "tiny": TINY,
        "quick": PEPTIDES.but(epochs=8, train_graphs=1500, evaluation_graphs=500),
        "full": PEPTIDES,
    }
    select = ("average_precision", "max")
