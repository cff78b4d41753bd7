"""What every task on real graphs is configured with, and what its experiments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn

from mooring.models import GNN
from mooring.models.layers import ConvName
from mooring.models.readout import ReadoutName
from mooring.named import suggest
from mooring.nn import MemoryOptions
from mooring.suite.real.data.catalogue import RISING, Metric
from mooring.suite.real.data.files import MissingData, load, require
from mooring.suite.train.config import MemoryConfig, OutOfRange
from mooring.suite.train.experiment import WarmedExperiment
from mooring.suite.train.memories import check_model, describe, memory_of


@dataclass(frozen=True)
class RealConfig(MemoryConfig):
    """As :class:`MemoryConfig`, and the network of :class:`mooring.models.GNN`.

    Args:
        steps_per_epoch: updates between two evaluations; 0 shows every training graph once.
        dataset: which set.
        channels, layers, conv, residual, memory_after, carry: as in :class:`mooring.models.GNN`.
        norm: as there; ``"none"`` for none.
        layer_dropout: its ``dropout``; the memory's own is called ``dropout``.
        log_size: as there; ``"none"`` for none.
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
    """A task on real graphs: one network, any memory, the official split and metric of the set."""

    config: RealConfig

    def __init__(self, config: RealConfig, model: str, seed: int) -> None:
        check_model(model)
        if config.steps_per_epoch == 0:
            # So that the record says how many there were.
            config = replace(config, steps_per_epoch=self.steps_of(config))
        super().__init__(config, model, seed)
        metric = self.metric
        # The class attribute is for callers that have no set yet.
        self.select = (metric, "max" if metric in RISING else "min")  # type: ignore[misc]

    @classmethod
    def steps_of(cls, config: Any) -> int:
        """Updates that show every training graph once."""
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
        return describe(self.model)

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
        """The network of the config and the model, with the encoders of the set."""
        config = self.config
        memory = memory_of(self.model, config.memory, one_graph=readout is None)
        # A network without a memory has no place for them.
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
    """Raise OutOfRange for a set that a task does not have."""
    if config.dataset not in ("generated", *sets):
        meant = suggest(config.dataset, sets, f"the sets are {', '.join(sets)}.")
        raise OutOfRange(task, f"unknown dataset {config.dataset!r}; {meant}")
