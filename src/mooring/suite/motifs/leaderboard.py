"""Every global module on the motif census with one budget of parameters and updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring import zoo
from mooring.nn import MemoryOptions
from mooring.suite.motifs.data import MOTIF_NAMES
from mooring.suite.motifs.data.dataset import MotifBatch
from mooring.suite.motifs.experiment import CensusConfig, CensusExperiment, learned_backbone
from mooring.suite.motifs.model import GINBackbone
from mooring.suite.train.experiment import MemoryConfig, describe, register_experiment


class ReaderNet(nn.Module):
    """Learned backbone, global module, and one reader per motif: a node without edges that asks for its count.

    The graph's own nodes write and only readers read, so a count can reach the head through the module alone.

    Args:
        backbone: not trained any further.
        channels, num_motifs: as in :class:`~mooring.suite.motifs.MotifNet`.
        memory: with the forward of :class:`~mooring.nn.SlotVirtualNode`; None leaves the readers as they are.
    """

    def __init__(self, backbone: GINBackbone, channels: int, memory: nn.Module | None, num_motifs: int) -> None:
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.memory = memory
        self.readers = nn.Parameter(torch.randn(num_motifs, channels))
        self.head = nn.Linear(channels, num_motifs)

    def forward(self, batch: MotifBatch) -> Float[Tensor, "graphs motifs"]:
        graphs, motifs = batch.num_graphs, len(self.readers)
        readers = self.readers.repeat(graphs, 1)
        if self.memory is not None:
            h = self.backbone(batch.x, batch.edge_index)
            index = torch.arange(graphs).repeat_interleave(motifs)
            reads = torch.arange(len(h) + len(readers)) >= len(h)
            out = self.memory(
                torch.cat([h, readers]),
                torch.cat([batch.batch, index]),
                sources=~reads,
                targets=reads,
                num_graphs=graphs,
            )
            readers = out[len(h) :]
        # Each motif has its own row of the head, so a module that tells all readers the same thing can still answer.
        return torch.einsum("gmc,mc->gm", readers.unflatten(0, (graphs, motifs)), self.head.weight) + self.head.bias


@dataclass(frozen=True)
class MotifLeaderboardConfig(CensusConfig, MemoryConfig):
    """As :class:`CensusConfig`, and options of the global module."""

    memory: MemoryOptions = MemoryOptions(slots=12, init_std=0.1, mass="log_odds")


# Smaller graphs and half the width of the `full` census, and a backbone that knows the gadgets: a run takes seconds.
SCREEN = (
    MotifLeaderboardConfig(epochs=8, steps_per_epoch=125, learning_rate=2e-3, channels=32)
    .but(train_graphs=2000, validation_graphs=200, test_graphs=200)
    .but(max_count=4, background=(8, 32), ood_counts=(5, 12), ood_background=(64, 128))
)
TINY = SCREEN.but(epochs=2, steps_per_epoch=3, channels=16, slots=6, pretrain_steps=3).but(
    train_graphs=60, validation_graphs=11, test_graphs=7
)
# One search for every module, on development seeds, and what it found on the seeds of the table.
SEARCH = SCREEN.but(learning_rate=5e-3)
PRESETS = {"screen": SCREEN, "search": SEARCH, "tuned": SEARCH, "tiny": TINY}


@register_experiment
class MotifLeaderboardExperiment(CensusExperiment):
    """The motif census for every module of the zoo, each with the parameters of the anchored one.

    :func:`mooring.zoo.matched` says how budgets are made equal. Once the backbone has learned to name gadgets
    (:func:`~mooring.suite.motifs.experiment.learned_backbone`) it is frozen, and is the same for all modules of a
    seed: what is compared is how they count.
    """

    name = "motifs-leaderboard"
    presets = PRESETS
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
        backbone = learned_backbone(config, self.seed)
        return ReaderNet(backbone, config.channels, memory, len(MOTIF_NAMES))
