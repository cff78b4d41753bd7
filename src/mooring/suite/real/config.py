"""Shared configuration, experiment and memories of the tasks on real graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from mooring import zoo
from mooring.models import GNN, OGBVirtualNode
from mooring.models.layers import ConvName
from mooring.models.readout import ReadoutName
from mooring.named import suggest
from mooring.nn import MemoryOptions, MemorySpec
from mooring.suite.real.data.catalogue import RISING, Metric
from mooring.suite.real.data.files import MissingData, load, require
from mooring.suite.train.config import OutOfRange
from mooring.suite.train.experiment import MemoryConfig, describe
from mooring.suite.train.schedule import WarmedExperiment

#: Titles of models outside the zoo, in the order of tables.
TITLES: Mapping[str, str] = {
    "plain": "No memory, fewer parameters",
    "none": "No memory",
    "ogb-vn-mean": "OGB VN, mean",
    "ogb-vn": "OGB VN, sum",
}


@dataclass(frozen=True)
class RealConfig(MemoryConfig):
    """Options of :class:`MemoryConfig`, and of the network :class:`mooring.models.GNN`.

    Args:
        steps_per_epoch: updates between two evaluations; 0 for one pass over the training graphs.
        dataset: name of the set.
        channels, layers, conv, residual, memory_after, carry: as in :class:`mooring.models.GNN`.
        norm: as in ``GNN``; ``"none"`` for none.
        layer_dropout: ``dropout`` of ``GNN``; the field ``dropout`` is the memory's.
        log_size: as in ``GNN``; ``"none"`` for none.
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
    """Task on real graphs: one network, any memory, the official split and metric of the set."""

    config: RealConfig

    def __init__(self, config: RealConfig, model: str, seed: int) -> None:
        if model not in TITLES:
            zoo.entry(model)
        if config.steps_per_epoch == 0:
            # Resolved here, so that the record contains the number.
            config = replace(config, steps_per_epoch=self.steps_of(config))
        super().__init__(config, model, seed)
        metric = self.metric
        # The class attribute is for callers without a set.
        self.select = (metric, "max" if metric in RISING else "min")  # type: ignore[misc]

    @classmethod
    def steps_of(cls, config: Any) -> int:
        """Return the number of updates of one pass over the training graphs."""
        raise NotImplementedError

    @property
    def metric(self) -> Metric:
        """The official metric of the set."""
        raise NotImplementedError

    def check_inputs(self) -> None:
        if self.config.dataset != "generated":
            require(self.config.dataset)

    def data_hash(self) -> str | None:
        if self.config.dataset == "generated":
            return ""
        try:
            return load(self.config.dataset).sha256
        except MissingData:
            return None

    def describe(self) -> dict[str, Any]:
        return describe(self.model, TITLES)

    def network(
        self,
        encoder: int | nn.Module,
        targets: int,
        *,
        edge_encoder: nn.Module | None = None,
        position: nn.Module | None = None,
        readout: ReadoutName | nn.Module | None = None,
        typical_size: float = 1.0,
    ) -> GNN:
        """Build the network of the config and the model, with the encoders of the set."""
        config = self.config
        memory = memory_of(self.model, config.memory, one_graph=readout is None)
        # A network without a memory does not accept them.
        places: dict[str, Any] = {"memory_after": config.memory_after, "carry": config.carry}
        return GNN(
            encoder,
            config.channels,
            targets,
            config.layers,
            edge_encoder=edge_encoder,
            position=position,
            conv=config.conv,
            norm=None if config.norm == "none" else config.norm,
            dropout=config.layer_dropout,
            residual=config.residual,
            memory=memory,
            **(places if memory is not None else {}),
            readout=readout,
            log_size=None if config.log_size == "none" else config.log_size,
            typical_size=typical_size,
        )


def known(config: RealConfig, task: str, sets: Sequence[str]) -> None:
    """Raise OutOfRange if a task does not have the set."""
    if config.dataset not in ("generated", *sets):
        hint = suggest(config.dataset, sets, f"the sets are {', '.join(sets)}.")
        raise OutOfRange(task, f"unknown dataset {config.dataset!r}; {hint}")


class NoMemory(nn.Module):
    """Identity with the interface of a memory; :func:`mooring.zoo.filled` adds the parameter-matched MLP."""

    def forward(self, x: Tensor, batch: Any = None, **options: Any) -> Any:
        return (x, None) if options.get("return_state") else x

    def reset_parameters(self) -> None:
        """Do nothing: there are no parameters."""


def memory_of(model: str, options: MemoryOptions, *, one_graph: bool = False) -> Callable[[int], nn.Module] | None:
    """Return a builder of the model's memory, a function of the node width; None for the network alone.

    All models but ``"plain"`` have as many parameters as the anchored module; ``"none"`` has them in a node-wise MLP.

    Args:
        model: a name of the zoo, or of :data:`TITLES`.
        options: options of the memory.
        one_graph: whether a batch is one graph, for which OGB's batch norm is undefined and replaced by layer norm.
    """
    if model == "plain":
        return None

    def build(channels: int) -> nn.Module:
        spec: MemorySpec = options.at(channels)
        if model == "none":
            return zoo.filled(NoMemory(), spec)
        if model in TITLES:
            pool: Any = "mean" if model.endswith("mean") else "sum"
            virtual_node = OGBVirtualNode(channels, pool, norm="layer" if one_graph else "batch", dropout=spec.dropout)
            return zoo.filled(virtual_node, spec)
        module = zoo.matched(model, spec)
        assert module is not None, "only 'none' is None"
        return module

    return build
