"""Constrained link sets as an experiment: the paper's external validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mooring import zoo
from mooring.suite.linksets.batch import LinkBatch, collate
from mooring.suite.linksets.config import PRESETS, LinkConfig
from mooring.suite.linksets.data import SPLITS, LinkDataset, LinkSettings, cached
from mooring.suite.linksets.metrics import best_threshold, calibration, f1_by_size, greedy_f1, split_metrics
from mooring.suite.linksets.model import LinkNet, matched_hidden
from mooring.suite.train.engine import cores
from mooring.suite.train.experiment import Experiment, TrainConfig, register_experiment

LOWEST_RATE = 0.01
EVALUATION_BATCH = 50
SIZE_BINS = 6


@register_experiment
class LinkExperiment(Experiment):
    """Predict the optimal link set; the graphs are the same for every model and seed.

    Paper: tab:link-generation, sec:external-validation.
    """

    name: ClassVar[str] = "linksets"
    config_type: ClassVar[type[TrainConfig]] = LinkConfig
    presets: ClassVar[Mapping[str, TrainConfig]] = PRESETS
    models: ClassVar[tuple[str, ...]] = ("none", "vn", "vn-sum", "cross-attn", "anchored")
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("f1", "max")
    requires: ClassVar[Mapping[str, str]] = {"ortools": "mooring[links]"}
    config: LinkConfig

    def __init__(self, config: LinkConfig, model: str, seed: int) -> None:
        zoo.entry(model)
        super().__init__(config, model, seed)

    def build(self) -> nn.Module:
        return LinkNet(self.config, self.model, matched_hidden(self.config, self.model))

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        config = self.config
        done = epoch + step / config.steps_per_epoch
        if done < config.warmup_epochs:
            # From the first step on above zero, so that it is not wasted.
            return (done + 1 / config.steps_per_epoch) / (config.warmup_epochs + 1 / config.steps_per_epoch)
        share = (done - config.warmup_epochs) / max(config.epochs - config.warmup_epochs, 1e-9)
        return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))

    def train_batch(self, epoch: int, step: int) -> LinkBatch:
        config = self.config
        train = self._graphs("train")
        order = np.random.default_rng((self.seed, epoch)).permutation(len(train))
        # More steps than an epoch has come from several devices, each with its own batches: the epoch starts over.
        first = step * config.batch_size % len(train)
        chosen = np.take(order, range(first, first + config.batch_size), mode="wrap")
        return collate(train, chosen, config.sectors, np.random.default_rng((self.seed, epoch, step)))

    def loss(self, net: nn.Module, batch: LinkBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        # Summed over the pairs of the batch and divided by their number: large graphs count for more, as they do in F1.
        # A batch without candidates has nothing to learn from, and a mean over nothing would be nan.
        total = functional.binary_cross_entropy_with_logits(net(batch), batch.target, reduction="sum")
        return total / max(len(batch.target), 1), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        probability = self._predict(net, "validation")
        chosen = self._graphs("validation").chosen
        threshold, f1 = best_threshold(probability, chosen)
        likely = np.clip(np.where(chosen, probability, 1 - probability), 1e-7, 1.0)
        return {"f1": f1, "threshold": threshold, "log_loss": float(-np.log(likely).mean())}

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        settings = self.config.graphs
        threshold, _ = best_threshold(self._predict(net, "validation"), self._graphs("validation").chosen)
        metrics: dict[str, float] = {"threshold": threshold}
        diagnostics: dict[str, Any] = {}
        for split in ("test", "larger"):
            probability, graphs = self._predict(net, split), self._graphs(split)
            results = split_metrics(graphs, probability, threshold, settings)
            metrics |= {f"{split}/{name}": value for name, value in results.items()}
            if split == "test":
                low, high = settings.nodes
                edges = np.unique(np.geomspace(low, high + 1, SIZE_BINS + 1).astype(int)).tolist()
                diagnostics["calibration"] = calibration(probability, graphs.chosen)
                diagnostics["f1_by_size"] = f1_by_size(graphs, probability >= threshold, edges)
        metrics["greedy/f1"] = greedy_f1(self._graphs("test"), settings)
        metrics["greedy/larger_f1"] = greedy_f1(self._graphs("larger"), settings)
        diagnostics["all_optimal"] = all(self._graphs(split).all_optimal for split in SPLITS)
        return metrics, diagnostics

    def _graphs(self, split: str) -> LinkDataset:
        config = self.config
        return _remembered(config.graphs, split, config.num_graphs(split), config.data_seed)

    def _predict(self, net: nn.Module, split: str) -> NDArray[np.float64]:
        """Return the probability of every pair of a split, in its order."""
        graphs = self._graphs(split)
        batches = np.split(np.arange(len(graphs)), range(EVALUATION_BATCH, len(graphs), EVALUATION_BATCH))
        logits = [net(collate(graphs, batch, self.config.sectors)) for batch in batches]
        return torch.cat(logits).double().sigmoid().numpy()


@lru_cache(maxsize=8)
def _remembered(settings: LinkSettings, split: str, num_graphs: int, seed: int) -> LinkDataset:
    # Few graphs are made sooner than processes are started.
    return cached(settings, split, num_graphs, seed, workers=cores() if num_graphs > 200 else 1)
