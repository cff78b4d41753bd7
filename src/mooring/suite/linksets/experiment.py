"""Constrained link sets as an experiment: the paper's external validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mooring import zoo
from mooring.nn import MemoryOptions
from mooring.suite.linksets.data import SPLITS, LinkBatch, LinkDataset, LinkSettings, cached, collate
from mooring.suite.linksets.metrics import (
    best_threshold,
    calibration,
    f1_by_size,
    fitting,
    greedy_f1,
    log_loss,
    split_metrics,
)
from mooring.suite.linksets.model import LinkNet, matched_sizes
from mooring.suite.train.config import FiniteConfig, MemoryConfig, OutOfRange
from mooring.suite.train.engines import cores
from mooring.suite.train.experiment import FiniteExperiment, register_experiment
from mooring.suite.train.memories import describe

EVALUATION_BATCH = 50
SIZE_BINS = 6


@dataclass(frozen=True)
class LinkConfig(FiniteConfig, MemoryConfig):
    """Training schedule, graphs and memory of the link-set experiment.

    Args:
        batch_size, train_graphs, warmup_epochs: as in :class:`~mooring.suite.train.config.FiniteConfig`.
        graphs: nodes and rules, see :class:`~mooring.suite.linksets.data.LinkSettings`.
        data_seed: seed of the graphs, which all models and seeds share; see ``docs/linksets.md``.
        validation_graphs, test_graphs, larger_graphs: graphs of each split.
        channels: width of node vectors and memory.
        blocks: memory modules, each followed by a node MLP.
        hidden: hidden width of the node MLPs in the ``anchored`` model; other models match its size.
        memory: options of the global modules.
        waves: Fourier features of a point.
        exact_ranks: give the decoder the number of heavier rivals of each pair, which no memory has exactly; this
            measures the ceiling.
        turns: number of decoder turns with `exact_ranks`; from the second on, the number of rivals picked in the last
            turn is an input too.
    """

    batch_size: int = 32
    graphs: LinkSettings = LinkSettings()
    data_seed: int = 0
    validation_graphs: int = 400
    test_graphs: int = 500
    larger_graphs: int = 150
    channels: int = 64
    blocks: int = 3
    hidden: int = 64
    memory: MemoryOptions = MemoryOptions(slots=64, heads=1, init_std=0.02, anchor_init=3.0)
    waves: int = 16
    exact_ranks: bool = False
    turns: int = 1

    at_least_one: ClassVar[tuple[str, ...]] = (
        *("validation_graphs", "test_graphs", "larger_graphs"),
        *("channels", "blocks", "hidden", "waves", "turns"),
    )
    not_negative: ClassVar[tuple[str, ...]] = ("data_seed",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns > 1 and not self.exact_ranks:
            raise OutOfRange(
                type(self).__name__,
                f"turns={self.turns} without exact_ranks. Set exact_ranks=true, or leave turns at 1.",
            )

    def num_graphs(self, split: str) -> int:
        """Return the number of graphs of a split."""
        return getattr(self, f"{split}_graphs")


FULL = LinkConfig(epochs=15, steps_per_epoch=125, learning_rate=2e-3)
QUICK = FULL.but(
    epochs=16, steps_per_epoch=50, train_graphs=1600, validation_graphs=150, test_graphs=200, larger_graphs=40
)
TINY = (
    FULL.but(epochs=2, steps_per_epoch=3, batch_size=7, channels=16, blocks=2, hidden=16, slots=6, heads=2, waves=4)
    .but(nodes=(5, 13), larger_nodes=(17, 19))
    .but(train_graphs=23, validation_graphs=11, test_graphs=7, larger_graphs=3)
)
# One search for every module on the sets of `quick`, at a development seed; its result runs on the sets of `full`.
PRESETS = {"tiny": TINY, "quick": QUICK, "search": QUICK, "full": FULL}


@register_experiment
class LinkExperiment(FiniteExperiment):
    """Prediction of the optimal link set; the graphs are the same for every model and seed.

    Paper: tab:link-generation, sec:external-validation.
    """

    name = "linksets"
    presets = PRESETS
    models = ("none", "vn", "vn-sum", "cross-attn", "anchored")
    select = ("f1", "max")
    requires: ClassVar[Mapping[str, str]] = {"ortools": "mooring[links]"}
    config: LinkConfig

    def __init__(self, config: LinkConfig, model: str, seed: int) -> None:
        zoo.entry(model)
        super().__init__(config, model, seed)

    def describe(self) -> dict[str, Any]:
        return describe(self.model, {})

    def build(self) -> nn.Module:
        config = self.config
        spec, hidden = matched_sizes(self.model, config.memory.at(config.channels), config.hidden)
        return LinkNet(
            config.graphs,
            self.model,
            spec,
            blocks=config.blocks,
            hidden=hidden,
            waves=config.waves,
            turns=config.turns if config.exact_ranks else 0,
        )

    def train_batch(self, epoch: int, step: int) -> LinkBatch:
        rng = np.random.default_rng((self.seed, epoch, step))
        return collate(self._graphs("train"), self.chosen(epoch, step), self.config.graphs.sectors, rng)

    def loss(self, net: nn.Module, batch: LinkBatch, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        # A mean over the pairs of the batch: large graphs count for more, as in F1. Every turn of the decoder is
        # trained. A batch without candidates would have a mean of NaN, hence the minimum of 1.
        logits = net(batch, every_turn=True)
        total = functional.binary_cross_entropy_with_logits(logits, batch.target.expand_as(logits), reduction="sum")
        return total / max(logits.numel(), 1), {}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        probability = self._predict(net, "validation")
        chosen = self._graphs("validation").chosen
        threshold, f1 = best_threshold(probability, chosen)
        return {"f1": f1, "threshold": threshold, "log_loss": log_loss(probability, chosen)}

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        settings = self.config.graphs
        validation, known = self._graphs("validation"), self._predict(net, "validation")
        threshold, _ = best_threshold(known, validation.chosen)
        # Decoding has a separate threshold, because it drops links that do not fit.
        decoded_threshold, _ = best_threshold(fitting(validation, known, settings), validation.chosen)
        metrics: dict[str, float] = {"threshold": threshold, "decoded_threshold": decoded_threshold}
        diagnostics: dict[str, Any] = {}
        for split in ("test", "larger"):
            probability, graphs = self._predict(net, split), self._graphs(split)
            results = split_metrics(graphs, probability, threshold, settings, decoded_threshold=decoded_threshold)
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
        return _loaded(config.graphs, split, config.num_graphs(split), config.data_seed)

    def _predict(self, net: nn.Module, split: str) -> NDArray[np.float64]:
        """Return the probability of every pair of a split, in its order."""
        graphs = self._graphs(split)
        batches = np.split(np.arange(len(graphs)), range(EVALUATION_BATCH, len(graphs), EVALUATION_BATCH))
        logits = [net(collate(graphs, batch, self.config.graphs.sectors)) for batch in batches]
        return torch.cat(logits).double().sigmoid().numpy()


@lru_cache(maxsize=8)
def _loaded(settings: LinkSettings, split: str, num_graphs: int, seed: int) -> LinkDataset:
    # A few graphs take less time than starting processes.
    return cached(settings, split, num_graphs, seed, workers=cores() if num_graphs > 200 else 1)
