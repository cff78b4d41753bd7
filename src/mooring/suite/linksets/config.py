"""What a link-set run is, and the three sizes it comes in."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from mooring.suite.linksets.data import LinkSettings
from mooring.suite.train.experiment import TrainConfig


@dataclass(frozen=True)
class LinkConfig(LinkSettings, TrainConfig):
    """Training and graphs in one flat config, so that every field can be overridden by name.

    Args:
        data_seed: Seed of the graphs. Runs of all models and seeds share them; see ``docs/linksets.md``.
        batch_size: Graphs per step.
        train_graphs, validation_graphs, test_graphs, larger_graphs: Graphs of each split.
        channels: Width of node vectors and memory.
        blocks: Memory modules, each followed by a node MLP.
        hidden: Hidden width of the node MLPs in the ``anchored`` model; the others' follow from its size.
        slots, heads, temperature, init_std, anchor_init: Of the slot memories.
        waves: Fourier features of a point.
        warmup_epochs: Epochs over which the learning rate rises, before it falls as a cosine.
    """

    data_seed: int = 0
    batch_size: int = 32
    train_graphs: int = 4000
    validation_graphs: int = 400
    test_graphs: int = 500
    larger_graphs: int = 150
    channels: int = 64
    blocks: int = 3
    hidden: int = 64
    slots: int = 64
    heads: int = 1
    temperature: float = 1.0
    init_std: float = 0.02
    anchor_init: float = 3.0
    waves: int = 16
    warmup_epochs: float = 1.0

    at_least_one: ClassVar[tuple[str, ...]] = (
        *TrainConfig.at_least_one,
        *("batch_size", "train_graphs", "validation_graphs", "test_graphs", "larger_graphs"),
        *("channels", "blocks", "hidden", "slots", "heads", "waves"),
    )
    above_zero: ClassVar[tuple[str, ...]] = (*TrainConfig.above_zero, "temperature")
    not_negative: ClassVar[tuple[str, ...]] = (*TrainConfig.not_negative, "data_seed", "init_std", "warmup_epochs")

    def __post_init__(self) -> None:
        self.check_ranges()
        super().__post_init__()
        if self.steps_per_epoch * self.batch_size > self.train_graphs:
            raise ValueError(
                f"linksets: {self.steps_per_epoch} steps of {self.batch_size} graphs are more than "
                f"train_graphs={self.train_graphs}, and an epoch shows a graph once. Lower one of them."
            )

    @property
    def graphs(self) -> LinkSettings:
        """The part of the config that graphs depend on."""
        return LinkSettings(**{field.name: getattr(self, field.name) for field in fields(LinkSettings)})

    def num_graphs(self, split: str) -> int:
        """Number of graphs of a split."""
        return getattr(self, f"{split}_graphs")


PRESETS: dict[str, LinkConfig] = {
    "tiny": LinkConfig(
        epochs=2,
        steps_per_epoch=3,
        learning_rate=2e-3,
        nodes=(5, 13),
        larger_nodes=(17, 19),
        batch_size=7,
        train_graphs=23,
        validation_graphs=11,
        test_graphs=7,
        larger_graphs=3,
        channels=16,
        blocks=2,
        hidden=16,
        slots=6,
        heads=2,
        waves=4,
    ),
    "quick": LinkConfig(
        epochs=16,
        steps_per_epoch=50,
        learning_rate=2e-3,
        train_graphs=1600,
        validation_graphs=150,
        test_graphs=200,
        larger_graphs=40,
    ),
    "full": LinkConfig(epochs=15, steps_per_epoch=125, learning_rate=2e-3),
}
