"""Motif census (benchmark B of the paper) for readouts of the whole graph, and for every module of the zoo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mooring import zoo
from mooring.named import suggest
from mooring.nn import MemoryOptions
from mooring.suite.motifs.data import (
    DISTRACTORS,
    MOTIF_NAMES,
    MOTIFS,
    TEST_SPLITS,
    MotifBatch,
    MotifDataset,
    MotifSettings,
    cached_census,
    collate,
)
from mooring.suite.motifs.metrics import error_by_count, macro, per_motif
from mooring.suite.motifs.model import READOUTS, GINBackbone, MotifNet, ReaderNet, ReadoutSpec
from mooring.suite.train.config import ConfigError, FiniteConfig, MemoryConfig, OutOfRange
from mooring.suite.train.experiment import FiniteExperiment, register_experiment
from mooring.suite.train.memories import describe

# Errors below this are quadratic in the loss: pure L1 would move weights by full steps at the optimum.
LOSS_KNEE = 0.05
EVALUATION_BATCH = 100
PRETRAIN_LEARNING_RATE = 3e-3
# A node is the root of one of the gadgets, or of none.
CLASSES = 1 + len(MOTIFS) + len(DISTRACTORS)


@dataclass(frozen=True)
class CensusConfig(FiniteConfig):
    """Training schedule and ranges of the census.

    Args:
        batch_size, train_graphs, warmup_epochs: as in :class:`~mooring.suite.train.config.FiniteConfig`.
        census: ranges of the graphs, see :class:`~mooring.suite.motifs.data.MotifSettings`.
        validation_graphs: graphs that select the epoch.
        test_graphs: graphs of each test split.
        channels: width of backbone and readout.
        layers: hops of the backbone.
        pretrain_steps: updates in which the backbone learns to classify gadgets, before the readout is trained.
        patience: epochs without a better validation log-MAE before stopping.
    """

    census: MotifSettings = MotifSettings()
    validation_graphs: int = 500
    test_graphs: int = 500
    channels: int = 64
    layers: int = 4
    pretrain_steps: int = 1000
    patience: int = 10

    at_least_one: ClassVar[tuple[str, ...]] = ("channels", "layers", "patience")
    not_negative: ClassVar[tuple[str, ...]] = ("pretrain_steps",)

    def check_ranges(self) -> None:
        super().check_ranges()
        if min(self.validation_graphs, self.test_graphs) < 2:
            raise OutOfRange(type(self).__name__, "log-R2 needs at least 2 validation and 2 test graphs.")


def learned_backbone(config: CensusConfig, seed: int) -> GINBackbone:
    """Train a backbone to classify, node by node, which gadget has its root there.

    The result is a pure function of the arguments, and the caller's random state is restored, so that all readouts of
    one seed have the same backbone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = GINBackbone(config.census.num_types, config.channels, config.layers)
        classify = nn.Linear(config.channels, CLASSES)
        rate, trained = PRETRAIN_LEARNING_RATE, [*backbone.parameters(), *classify.parameters()]
        optimizer = torch.optim.AdamW(trained, rate, weight_decay=0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, max(config.pretrain_steps, 2))
        train = cached_census(config.census, "train", config.train_graphs, seed)
        rng = np.random.default_rng((seed, 1))
        with torch.enable_grad():
            for _ in range(config.pretrain_steps):
                batch = collate(train, rng.integers(len(train), size=config.batch_size), config.census.num_types)
                loss = _loss(classify(backbone(batch.x, batch.edge_index)), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return backbone


def _loss(logits: torch.Tensor, batch: MotifBatch) -> torch.Tensor:
    """Return the cross-entropy with equal weight for roots and other nodes, though roots are few."""
    each = functional.cross_entropy(logits, batch.planted, reduction="none")
    roots = batch.planted > 0
    return each[roots].mean() + each[~roots].mean()


class CensusExperiment(FiniteExperiment):
    """Predict ``log(1 + count)`` of six rooted motifs; all models of a seed share graphs and initial backbone."""

    select = ("log_mae", "min")
    config: CensusConfig

    def train_batch(self, epoch: int, step: int) -> MotifBatch:
        return self._collate(self._graphs("train"), self.chosen(epoch, step))

    def loss(self, net: nn.Module, batch: MotifBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        return functional.smooth_l1_loss(net(batch), batch.target, beta=LOSS_KNEE), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return macro(*self._predict(net, "validation"))

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        errors = [row["log_mae"] for row in history]
        return len(errors) - 1 - int(np.argmin(errors)) >= self.config.patience

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        results = {split: self._predict(net, split) for split in TEST_SPLITS}
        metrics = {
            f"{split}/{name}": value for split, result in results.items() for name, value in macro(*result).items()
        }
        # Graph i of "replicated" is copies of graph i of "iid", so the predictions can be compared graph by graph.
        change = (results["replicated"][0] - results["iid"][0]).abs().max()
        diagnostics = {
            "per_motif": {split: per_motif(*result, MOTIF_NAMES) for split, result in results.items()},
            "error_by_count": {split: error_by_count(*result) for split, result in results.items()},
            "replication_change": float(change),
        }
        return metrics, diagnostics

    def _predict(self, net: nn.Module, split: str) -> tuple[Tensor, Tensor]:
        graphs = self._graphs(split)
        parts = np.split(np.arange(len(graphs)), range(EVALUATION_BATCH, len(graphs), EVALUATION_BATCH))
        batches = [self._collate(graphs, part) for part in parts]
        return torch.cat([net(batch) for batch in batches]), torch.cat([batch.target for batch in batches])

    def _graphs(self, split: str) -> MotifDataset:
        config = self.config
        sizes = {"train": config.train_graphs, "validation": config.validation_graphs}
        return cached_census(config.census, split, sizes.get(split, config.test_graphs), self.seed)

    def _collate(self, graphs: MotifDataset, chosen: NDArray[np.int64]) -> MotifBatch:
        return collate(graphs, chosen, self.config.census.num_types)


@dataclass(frozen=True)
class MotifConfig(CensusConfig):
    """Options of :class:`CensusConfig`, and of the slot readouts.

    Args:
        slots: slots of the slot readouts.
        heads: heads of each slot.
    """

    slots: int = 12
    heads: int = 4

    at_least_one: ClassVar[tuple[str, ...]] = ("slots", "heads")


FULL = MotifConfig(epochs=15, steps_per_epoch=250, learning_rate=2e-3)
QUICK = FULL.but(epochs=8, validation_graphs=250, test_graphs=250)
TINY = FULL.but(epochs=2, steps_per_epoch=3, learning_rate=3e-3, batch_size=13, pretrain_steps=3).but(
    train_graphs=40, validation_graphs=11, test_graphs=7, channels=16, slots=6, heads=2
)
PRESETS = {"tiny": TINY, "quick": QUICK, "full": FULL}


@register_experiment
class MotifExperiment(CensusExperiment):
    """Motif census for readouts of the whole graph.

    Paper: tab:motifs, app:motifs.
    """

    name = "motifs"
    presets = PRESETS
    models = ("mean", "sum", "cross-attn", "anchored")
    config: MotifConfig

    def __init__(self, config: MotifConfig, model: str, seed: int) -> None:
        super().__init__(config, model, seed)
        if model not in READOUTS:
            hint = suggest(model, READOUTS, f"the readouts are {', '.join(READOUTS)}.")
            raise ConfigError(f"motifs: unknown readout {model!r}; {hint}")

    def describe(self) -> dict[str, Any]:
        return {"title": READOUTS[self.model].title, "order": list(READOUTS).index(self.model)}

    def build(self) -> nn.Module:
        config = self.config
        sizes = torch.from_numpy(np.bincount(np.diff(self._graphs("train").node_start)))
        readout = READOUTS[self.model].build(ReadoutSpec(config.channels, config.slots, config.heads, sizes))
        return MotifNet(learned_backbone(config, self.seed), config.channels, readout, len(MOTIF_NAMES))


@dataclass(frozen=True)
class MotifLeaderboardConfig(CensusConfig, MemoryConfig):
    """Options of :class:`CensusConfig`, and of the global module."""

    memory: MemoryOptions = MemoryOptions(slots=12, init_std=0.1, mass="log_odds")


# Smaller graphs and half the width of the `full` census, and a pretrained backbone: a run takes seconds.
SCREEN = (
    MotifLeaderboardConfig(epochs=8, steps_per_epoch=125, learning_rate=2e-3, channels=32)
    .but(train_graphs=2000, validation_graphs=200, test_graphs=200)
    .but(max_count=4, background=(8, 32), ood_counts=(5, 12), ood_background=(64, 128))
)
BOARD_TINY = SCREEN.but(epochs=2, steps_per_epoch=3, channels=16, slots=6, pretrain_steps=3).but(
    train_graphs=60, validation_graphs=11, test_graphs=7
)
# One search for every module on development seeds, and its result on the seeds of the table.
SEARCH = SCREEN.but(learning_rate=5e-3)
BOARD_PRESETS = {"screen": SCREEN, "search": SEARCH, "tuned": SEARCH, "attribution": SEARCH, "tiny": BOARD_TINY}


@register_experiment
class MotifLeaderboardExperiment(CensusExperiment):
    """Motif census for every module of the zoo, each with as many parameters as the anchored one.

    :func:`mooring.zoo.matched` equalises the budgets. The backbone learns to classify gadgets
    (:func:`learned_backbone`) and is then frozen. It is the same for all modules of a
    seed, so the comparison is between ways of counting.
    """

    name = "motifs-leaderboard"
    presets = BOARD_PRESETS
    default_preset = "screen"
    models = tuple(zoo.names())
    config: MotifLeaderboardConfig

    def __init__(self, config: MotifLeaderboardConfig, model: str, seed: int) -> None:
        super().__init__(config, zoo.entry(model).name, seed)

    def describe(self) -> dict[str, Any]:
        return describe(self.model, {})

    def build(self) -> nn.Module:
        config = self.config
        memory = zoo.matched(self.model, config.memory.at(config.channels))
        return ReaderNet(learned_backbone(config, self.seed), config.channels, memory, len(MOTIF_NAMES))
