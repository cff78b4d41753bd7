"""Counted Two-Radius: the paper's first table, and the leaderboard of all global modules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from mooring import zoo
from mooring.nn import MemoryOptions, MemorySpec
from mooring.suite.train.config import MemoryConfig, TrainConfig
from mooring.suite.train.experiment import Experiment, register_experiment
from mooring.suite.train.memories import describe
from mooring.suite.two_radius.data import CountedTask, Split, TwoRadiusBatch, stream
from mooring.suite.two_radius.metrics import diagnose, losses, mean_scores
from mooring.suite.two_radius.model import Answer, TwoRadiusNet

# Fresh minibatches after training, in multiples of a validation: the best epoch of 200 is optimistic at chance level.
TEST_FACTOR = 4

# The models without a global module.
MPNNS = {"mpnn-additive": "MPNN, messages added", "mpnn-summed": "MPNN, embeddings added", "mpnn": "MPNN"}


@dataclass(frozen=True)
class TwoRadiusConfig(MemoryConfig):
    """Task, backbone, memory and schedule; the defaults are the paper's.

    Args:
        task: see :class:`~mooring.suite.two_radius.data.CountedTask`.
        assignments: assignments in a minibatch, each rendered at every scale.
        validation_batches: fresh minibatches of an evaluation.
        channels, layers: width and depth of the backbone; the embeddings have the same width.
        memory: options of the global module.
        addressed: whether the memory routes by identifier; otherwise by node content.
        count_warmup: epochs without the count loss.
        count_ramp: epochs over which the weight of the count loss then rises linearly.
        count_weight: final weight of the count loss.
        final_lr_scale: factor of the learning rates at the end of the run, reached linearly; 1 keeps them constant.
    """

    epochs: int = 200
    steps_per_epoch: int = 50
    learning_rate: float = 1e-4
    memory_lr_scale: float = 2.0
    task: CountedTask = CountedTask(rendering="collapsed")
    assignments: int = 32
    validation_batches: int = 8
    channels: int = 128
    layers: int = 3
    memory: MemoryOptions = MemoryOptions(slots=12, temperature=0.35, mass="log_odds")
    addressed: bool = True
    count_warmup: int = 30
    count_ramp: int = 40
    count_weight: float = 0.5
    final_lr_scale: float = 1.0

    HIDDEN: ClassVar[tuple[str, ...]] = ("distinct_labels",)
    at_least_one: ClassVar[tuple[str, ...]] = ("assignments", "validation_batches", "channels", "layers")
    not_negative: ClassVar[tuple[str, ...]] = ("count_warmup", "count_ramp", "count_weight", "final_lr_scale")


PAPER = TwoRadiusConfig()
# The pattern of the paper's table in minutes: larger steps that decay to nearly zero, and an early count loss.
QUICK = PAPER.but(epochs=30, learning_rate=3e-4, memory_lr_scale=5.0, final_lr_scale=0.02).but(
    assignments=16, count_warmup=2, count_ramp=2
)
TINY = QUICK.but(
    epochs=3, steps_per_epoch=5, num_identifiers=5, assignments=3, validation_batches=2, channels=32, slots=5
)
PRESETS = {"paper": PAPER, "quick": QUICK, "tiny": TINY}


class MemoryExperiment(Experiment):
    """Experiment with local layers and an optional global module of the zoo."""

    #: The models without a global module, and their names in tables.
    without: ClassVar[Mapping[str, str]] = {"mpnn": "MPNN"}

    def __init__(self, config: Any, model: str, seed: int) -> None:
        super().__init__(config, model, seed)
        self.memory = "none" if model in self.without else zoo.entry(model).name
        self.task = config.task

    def describe(self) -> dict[str, Any]:
        return describe(self.model, self.without)

    def build_memory(self, spec: MemorySpec) -> nn.Module | None:
        """Build the global module, or return None."""
        return zoo.build(self.memory, spec)

    def network(
        self, counts: int | None, embedding_channels: int, *, addressed: bool = True, **options: bool
    ) -> TwoRadiusNet:
        """Build the network; see :class:`TwoRadiusNet` for its arguments."""
        config, task = self.config, self.task
        return TwoRadiusNet(
            task.num_identifiers + task.num_centres,
            task.labels,
            counts,
            self.build_memory(config.memory.at(config.channels, embedding_channels if addressed else None)),
            channels=config.channels,
            embedding_channels=embedding_channels,
            layers=config.layers,
            addressed=addressed,
            **options,
        )


@register_experiment
class TwoRadiusExperiment(MemoryExperiment):
    """Counted Two-Radius: every target names label and number of the sources that share its identifier.

    Models are ``mpnn`` (no global module), two variants that also fit the paper's description, ``mpnn-additive`` (nodes
    only add their messages) and ``mpnn-summed`` (embeddings are summed), and the names of :mod:`mooring.zoo`. Selection
    is by ``both``.

    Paper: ``tab:counted``, ``app:protocol``.

    Departs: identical sources are stored once with their multiplicity (``rendering="collapsed"``), which gives the
    same logits, loss and gradients; ``rendering="full"`` trains on every copy. The two differ only for the zoo's
    ``exphormer``, whose random edges depend on the number of nodes.
    """

    name = "two-radius"
    presets: ClassVar[Mapping[str, TrainConfig]] = PRESETS
    models: ClassVar[tuple[str, ...]] = ("mpnn", "vn", "cross-attn", "anchored")
    select = ("both", "max")

    without = MPNNS
    config: TwoRadiusConfig

    def build(self) -> nn.Module:
        config = self.config
        options = {"joint": self.model != "mpnn-additive", "side_by_side": self.model != "mpnn-summed"}
        return self.network(self.task.counts, config.channels, addressed=config.addressed, **options)

    def train_batch(self, epoch: int, step: int) -> TwoRadiusBatch:
        return self.task.batch(self.config.assignments, stream(self.seed, "train", epoch, step))

    def count_weight(self, epoch: int) -> float:
        """Return the weight of the count loss: zero, then linear, then constant. The paper's epochs start at 1."""
        since = epoch + 1 - self.config.count_warmup
        return self.config.count_weight * min(max(since / max(self.config.count_ramp, 1), 0.0), 1.0)

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        steps = self.config.steps_per_epoch
        done = (epoch * steps + step) / (self.config.epochs * steps)
        return 1.0 + done * (self.config.final_lr_scale - 1.0)

    def loss(self, net: nn.Module, batch: TwoRadiusBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        parts = losses(net(batch), batch)
        total = parts["label_loss"] + self.count_weight(epoch) * parts["count_loss"]
        return total, {name: part.detach() for name, part in parts.items()}

    def answers(
        self, net: nn.Module, split: Split, epoch: int, batches: int
    ) -> Iterator[tuple[Answer, TwoRadiusBatch]]:
        """Yield answers on fresh minibatches."""
        for step in range(batches):
            batch = self.task.batch(self.config.assignments, stream(self.seed, split, epoch, step))
            yield net(batch), batch

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return mean_scores(self.answers(net, "validation", epoch, self.config.validation_batches))

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        """Stop at a perfect validation: ties select the earlier epoch, so no later epoch could be selected."""
        return history[-1]["both"] >= 1.0

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        """Return accuracies on data unused by selection, and the diagnostics of ``app:protocol``."""
        pairs = list(self.answers(net, "test", 0, TEST_FACTOR * self.config.validation_batches))
        assignment = replace(self.task, rendering="full").batch(1, stream(self.seed, "diagnostic"))
        return mean_scores(pairs), diagnose(net, assignment, pairs)


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
# One wide state against many slots without constraints: no cap on parameters, wide hidden layers, every update.
WIDE = SCREEN.but(equal_parameters=False, hidden_channels=128, hopeless_after=None)
# Number of updates that training needs; one size changes at a time.
LEARNABILITY = SCREEN.but(equal_parameters=False, hopeless_after=None, num_identifiers=12, slots=12)
BOARD_PRESETS = {
    "screen": SCREEN,
    # For sweeps over slots and identifiers: points of a figure, not rows of the leaderboard.
    "width": SCREEN,
    "wide": WIDE,
    "learnability": LEARNABILITY,
    "tiny": SCREEN.but(epochs=3, steps_per_epoch=3, assignments=2, validation_batches=1, channels=16, hopeless_after=2),
}


@register_experiment
class LeaderboardExperiment(TwoRadiusExperiment):
    """Counted Two-Radius for every module of the zoo, with equal parameters by default.

    :func:`mooring.zoo.matched` equalises the budgets. A run ends when it is solved (a perfect validation) or hopeless
    (``hopeless_after`` epochs without a validation with Both above ``hopeless_both``).
    """

    name = "two-radius-leaderboard"
    presets = BOARD_PRESETS
    default_preset = "screen"
    models = tuple(zoo.names())

    config: LeaderboardConfig

    def build_memory(self, spec: MemorySpec) -> nn.Module | None:
        return zoo.matched(self.memory, spec) if self.config.equal_parameters else zoo.build(self.memory, spec)

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        after, least = self.config.hopeless_after, self.config.hopeless_both
        hopeless = after is not None and len(history) >= after and max(row["both"] for row in history) < least
        return hopeless or super().should_stop(history)
