"""The motif census as an experiment: benchmark B of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mooring.named import suggest
from mooring.suite.motifs.batch import MotifBatch, cached_census, collate
from mooring.suite.motifs.config import PRESETS, MotifConfig
from mooring.suite.motifs.data import MOTIF_NAMES, TEST_SPLITS
from mooring.suite.motifs.metrics import error_by_count, macro, per_motif
from mooring.suite.motifs.model import MotifNet
from mooring.suite.motifs.pretrain import learned_backbone
from mooring.suite.motifs.readouts import READOUTS, ReadoutSpec
from mooring.suite.train.config import ConfigError
from mooring.suite.train.experiment import Experiment, TrainConfig, register_experiment

# Errors below this are quadratic in the loss: pure L1 would keep pushing weights by full steps at the optimum.
LOSS_KNEE = 0.05
LOWEST_RATE = 0.01
EVALUATION_BATCH = 100


@register_experiment
class MotifExperiment(Experiment):
    """Predict ``log(1 + count)`` of six rooted motifs; all readouts of a seed share graphs and first backbone.

    Paper: tab:motifs, app:motifs.
    """

    name: ClassVar[str] = "motifs"
    config_type: ClassVar[type[TrainConfig]] = MotifConfig
    presets: ClassVar[Mapping[str, TrainConfig]] = PRESETS
    models: ClassVar[tuple[str, ...]] = ("mean", "sum", "cross-attn", "anchored")
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("log_mae", "min")
    config: MotifConfig

    def __init__(self, config: MotifConfig, model: str, seed: int) -> None:
        self.factor = self.rate(model)
        super().__init__(config, model, seed)

    @staticmethod
    def rate(model: str) -> float:
        """Return a model's own factor on the learning rate, and refuse one that does not exist."""
        if model not in READOUTS:
            meant = suggest(model, READOUTS, f"the readouts are {', '.join(READOUTS)}.")
            raise ConfigError(f"motifs: unknown readout {model!r}; {meant}")
        return READOUTS[model].rate

    def build(self) -> nn.Module:
        config = self.config
        train = cached_census(config.census, "train", config.train_graphs, self.seed)
        sizes = torch.from_numpy(np.bincount(np.diff(train.node_start)))
        readout = READOUTS[self.model].build(ReadoutSpec(config.channels, config.slots, config.heads, sizes))
        return MotifNet(learned_backbone(config, self.seed), config.channels, readout, len(MOTIF_NAMES))

    def parameter_groups(self, net: nn.Module) -> list[dict[str, Any]]:
        return [{**group, "lr": self.factor * group["lr"]} for group in super().parameter_groups(net)]

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        config = self.config
        done = epoch + step / config.steps_per_epoch
        if done < config.warmup_epochs:
            # From the first step on above zero, so that it is not wasted.
            return (done + 1 / config.steps_per_epoch) / (config.warmup_epochs + 1 / config.steps_per_epoch)
        share = (done - config.warmup_epochs) / max(config.epochs - config.warmup_epochs, 1e-9)
        return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))

    def train_batch(self, epoch: int, step: int) -> MotifBatch:
        config = self.config
        train = cached_census(config.census, "train", config.train_graphs, self.seed)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(train))
        # More steps than an epoch has come from several devices, each with its own batches: the epoch starts over.
        first = step * config.batch_size % len(train)
        return collate(train, np.take(order, range(first, first + config.batch_size), mode="wrap"), config.num_types)

    def loss(self, net: nn.Module, batch: MotifBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        loss = functional.smooth_l1_loss(net(batch), batch.target, beta=LOSS_KNEE)
        return loss, {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        return macro(*self._predict(net, "validation", self.config.validation_graphs))

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        errors = [row["log_mae"] for row in history]
        return len(errors) - 1 - int(np.argmin(errors)) >= self.config.patience

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        results = {split: self._predict(net, split, self.config.test_graphs) for split in TEST_SPLITS}
        metrics = {
            f"{split}/{name}": value for split, result in results.items() for name, value in macro(*result).items()
        }
        # Graph i of "replicated" is copies of graph i of "iid", so the predictions can be compared one by one.
        change = (results["replicated"][0] - results["iid"][0]).abs().max()
        diagnostics = {
            "per_motif": {split: per_motif(*result, MOTIF_NAMES) for split, result in results.items()},
            "error_by_count": {split: error_by_count(*result) for split, result in results.items()},
            "replication_change": float(change),
            "learning_rate": self.config.learning_rate * self.factor,
        }
        return metrics, diagnostics

    def _predict(self, net: nn.Module, split: str, num_graphs: int) -> tuple[Tensor, Tensor]:
        census = cached_census(self.config.census, split, num_graphs, self.seed)
        starts = range(0, num_graphs, EVALUATION_BATCH)
        batches = [
            collate(census, np.arange(start, min(start + EVALUATION_BATCH, num_graphs)), self.config.num_types)
            for start in starts
        ]
        return torch.cat([net(batch) for batch in batches]), torch.cat([batch.target for batch in batches])
