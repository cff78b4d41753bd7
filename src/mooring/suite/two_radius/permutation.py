"""Permutation-valued Two-Radius: how much a memory of given slots and width can hold."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor, nn

from mooring import zoo
from mooring.suite.train.experiment import Experiment, TrainConfig, register_experiment
from mooring.suite.two_radius.data import PermutationTask, Split, TwoRadiusBatch, stream
from mooring.zoo import MemorySpec

from .model import TwoRadiusNet
from .scores import losses, mean_scores


@dataclass(frozen=True)
class PermutationConfig(TrainConfig):
    """Task, backbone and memory.

    Args:
        num_identifiers, num_centres: as in :class:`~mooring.suite.two_radius.data.PermutationTask`.
        graphs: Graphs in a minibatch.
        validation_batches: Fresh minibatches of an evaluation.
        channels: Width of every state, a slot's included.
        embedding_channels: Width of embeddings and addresses, which hold no label and need not shrink with the memory.
        layers: Local layers.
        slots, heads, temperature, init_std: as in :class:`~mooring.nn.SlotVirtualNode`.
        stop_at: Label accuracy at which the task counts as solved and training ends; None trains on.
    """

    epochs: int = 60
    steps_per_epoch: int = 50
    learning_rate: float = 1e-3
    memory_lr_scale: float = 2.0
    num_identifiers: int = 24
    num_centres: int = 1
    graphs: int = 32
    validation_batches: int = 4
    channels: int = 64
    embedding_channels: int = 64
    layers: int = 3
    slots: int = 24
    heads: int = 4
    temperature: float = 0.35
    init_std: float = 1e-3
    stop_at: float | None = 0.999

    at_least_one: ClassVar[tuple[str, ...]] = (
        *TrainConfig.at_least_one,
        *("graphs", "validation_batches", "channels", "embedding_channels", "layers", "slots", "heads"),
    )
    above_zero: ClassVar[tuple[str, ...]] = (*TrainConfig.above_zero, "temperature", "stop_at")
    not_negative: ClassVar[tuple[str, ...]] = (*TrainConfig.not_negative, "init_std")


FULL = PermutationConfig()
QUICK = replace(FULL, epochs=15, num_identifiers=12, slots=12)
TINY = replace(QUICK, epochs=2, steps_per_epoch=5, num_identifiers=5, graphs=7, channels=16, slots=5)


@register_experiment
class PermutationExperiment(Experiment):
    """Every target names the label of the one source that shares its identifier.

    Paper: ``thm:lower``, ``thm:upper``.
    """

    name: ClassVar[str] = "two-radius-permutation"
    config_type: ClassVar[type[TrainConfig]] = PermutationConfig
    presets: ClassVar[dict[str, TrainConfig]] = {"full": FULL, "quick": QUICK, "tiny": TINY}
    models: ClassVar[tuple[str, ...]] = ("mpnn", "vn", "cross-attn")
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("label", "max")

    config: PermutationConfig

    def __init__(self, config: PermutationConfig, model: str, seed: int) -> None:
        super().__init__(config, model, seed)
        self.memory = "none" if model == "mpnn" else zoo.entry(model).name
        self.task = PermutationTask(config.num_identifiers, config.num_centres)

    def build(self) -> nn.Module:
        config = self.config
        spec = MemorySpec(
            channels=config.channels,
            slots=config.slots,
            heads=config.heads,
            temperature=config.temperature,
            address_channels=config.embedding_channels,
            init_std=config.init_std,
        )
        return TwoRadiusNet(
            config.num_identifiers + config.num_centres,
            self.task.labels,
            None,
            zoo.build(self.memory, spec),
            channels=config.channels,
            embedding_channels=config.embedding_channels,
            layers=config.layers,
        )

    def train_batch(self, epoch: int, step: int) -> TwoRadiusBatch:
        return self._batch("train", epoch, step)

    def loss(self, net: nn.Module, batch: TwoRadiusBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        loss = losses(net(batch), batch)["label_loss"]
        return loss, {"label_loss": loss.detach()}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        batches = (self._batch("validation", epoch, step) for step in range(self.config.validation_batches))
        return mean_scores((net(batch), batch) for batch in batches)

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        return self.config.stop_at is not None and history[-1]["label"] >= self.config.stop_at

    def _batch(self, split: Split, epoch: int, step: int) -> TwoRadiusBatch:
        return self.task.batch(self.config.graphs, stream(self.seed, split, epoch, step))
