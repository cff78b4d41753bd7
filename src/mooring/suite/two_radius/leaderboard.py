"""Leaderboard of all global modules on counted Two-Radius, with one budget of parameters and updates."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mooring import zoo
from mooring.nn import MemorySpec
from mooring.suite.train.experiment import register_experiment
from mooring.suite.two_radius.experiment import QUICK, TwoRadiusConfig, TwoRadiusExperiment


@dataclass(frozen=True)
class LeaderboardConfig(TwoRadiusConfig):
    """Options of :class:`TwoRadiusConfig`, the parameter budget, and the rule for giving up.

    Args:
        equal_parameters: match the parameters of every module to the anchored one; otherwise a module has the size that
            follows from the ``hidden_channels`` of the config.
        hopeless_after: epochs after which a run ends if its best Both is below ``hopeless_both``; None disables this.
        hopeless_both: threshold of ``hopeless_after``; twice chance in the presets.
    """

    equal_parameters: bool = True
    hopeless_after: int | None = None
    hopeless_both: float = 0.0

    at_least_one: ClassVar[tuple[str, ...]] = ("hopeless_after",)
    not_negative: ClassVar[tuple[str, ...]] = ("hopeless_both",)


# Six identifiers and half the width: minutes for the whole zoo. Chance is 1/6 for a label and about 1/6 for a count.
SCREEN = (
    LeaderboardConfig(**vars(QUICK), hopeless_after=10, hopeless_both=2 / 36)
    .but(epochs=40, learning_rate=1e-3, num_identifiers=6, slots=6, channels=64)
    .but(assignments=24, validation_batches=4, count_warmup=1, count_ramp=1, count_weight=1.0)
)
# For sweeps over slots and identifiers: points of a figure, not rows of the leaderboard.
WIDTH = SCREEN
# One wide state against many slots without constraints: no cap on parameters, wide hidden layers, every update.
WIDE = SCREEN.but(equal_parameters=False, hidden_channels=128, hopeless_after=None)
# Number of updates that training needs; one size changes at a time.
LEARNABILITY = SCREEN.but(equal_parameters=False, hopeless_after=None, num_identifiers=12, slots=12)
TINY = SCREEN.but(epochs=3, steps_per_epoch=3, assignments=2, validation_batches=1, channels=16, hopeless_after=2)
PRESETS = {"screen": SCREEN, "width": WIDTH, "wide": WIDE, "learnability": LEARNABILITY, "tiny": TINY}


@register_experiment
class LeaderboardExperiment(TwoRadiusExperiment):
    """Counted Two-Radius for every module of the zoo, with equal parameters by default.

    :func:`mooring.zoo.matched` equalises the budgets. A run ends when it is solved (a perfect validation) or hopeless
    (``hopeless_after`` epochs without a validation with Both above ``hopeless_both``).
    """

    name = "two-radius-leaderboard"
    presets = PRESETS
    default_preset = "screen"
    models = tuple(zoo.names())

    config: LeaderboardConfig

    def build_memory(self, spec: MemorySpec) -> nn.Module | None:
        return zoo.matched(self.memory, spec) if self.config.equal_parameters else zoo.build(self.memory, spec)

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        after = self.config.hopeless_after
        hopeless = after is not None and len(history) >= after
        return super().should_stop(history) or (
            hopeless and max(row["both"] for row in history) < self.config.hopeless_both
        )
