"""What a census run is, and the three sizes it comes in."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from mooring.suite.motifs.data import MotifSettings
from mooring.suite.train.experiment import TrainConfig


@dataclass(frozen=True)
class MotifConfig(MotifSettings, TrainConfig):
    """Training and census in one flat config, so that every field can be overridden by name.

    Args:
        batch_size: Graphs per step.
        train_graphs: Size of the finite training set.
        validation_graphs: Graphs the selected epoch is chosen on.
        test_graphs: Graphs of each test split.
        channels: Width of backbone and readout.
        layers: Hops of the backbone.
        slots: Slots of the slot readouts.
        heads: Heads of each slot.
        pretrain_steps: Updates in which the backbone learns to name gadgets, before anything is counted.
        warmup_epochs: Epochs over which the learning rate rises, before it falls as a cosine.
        patience: Epochs without a better validation log-MAE before stopping.
    """

    batch_size: int = 16
    train_graphs: int = 4000
    validation_graphs: int = 500
    test_graphs: int = 500
    channels: int = 64
    layers: int = 4
    slots: int = 12
    heads: int = 4
    pretrain_steps: int = 1000
    warmup_epochs: float = 1.0
    patience: int = 10

    at_least_one: ClassVar[tuple[str, ...]] = (
        *TrainConfig.at_least_one,
        *("batch_size", "train_graphs", "channels", "layers", "slots", "heads", "patience"),
    )
    not_negative: ClassVar[tuple[str, ...]] = (*TrainConfig.not_negative, "pretrain_steps", "warmup_epochs")

    def __post_init__(self) -> None:
        self.check_ranges()
        super().__post_init__()
        if self.steps_per_epoch * self.batch_size > self.train_graphs:
            raise ValueError(
                f"motifs: {self.steps_per_epoch} steps of {self.batch_size} graphs are more than "
                f"train_graphs={self.train_graphs}, and an epoch shows a graph once. Lower one of them."
            )
        if min(self.validation_graphs, self.test_graphs) < 2:
            raise ValueError("motifs: log-R2 needs at least 2 validation and 2 test graphs.")

    @property
    def census(self) -> MotifSettings:
        """The part of the config that graphs depend on."""
        return MotifSettings(**{field.name: getattr(self, field.name) for field in fields(MotifSettings)})


PRESETS: dict[str, MotifConfig] = {
    "tiny": MotifConfig(
        epochs=2,
        steps_per_epoch=3,
        learning_rate=3e-3,
        train_graphs=40,
        validation_graphs=11,
        test_graphs=7,
        batch_size=13,
        channels=16,
        slots=6,
        heads=2,
        pretrain_steps=3,
    ),
    "quick": MotifConfig(epochs=8, steps_per_epoch=250, learning_rate=2e-3, validation_graphs=250, test_graphs=250),
    "full": MotifConfig(epochs=15, steps_per_epoch=250, learning_rate=2e-3),
}
