"""Leaderboard of all global modules on the motif census, with one budget of parameters and updates."""

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
from mooring.suite.train.config import MemoryConfig
from mooring.suite.train.experiment import register_experiment
from mooring.suite.train.memories import describe


class ReaderNet(nn.Module):
    """Learned backbone, global module, and one reader per motif: a node without edges that reads a count.

    The nodes of the graph write and only readers read, so a count reaches the head through the module alone.

    Args:
        backbone: a trained backbone, frozen here.
        channels, num_motifs: as in :class:`~mooring.suite.motifs.MotifNet`.
        memory: a module with the forward of :class:`~mooring.nn.SlotVirtualNode`; if None, the readers are unchanged.
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
        # Each motif has a separate row of the head, so a module that sends the same message to all readers can still
        # answer.
        return torch.einsum("gmc,mc->gm", readers.unflatten(0, (graphs, motifs)), self.head.weight) + self.head.bias


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
TINY = SCREEN.but(epochs=2, steps_per_epoch=3, channels=16, slots=6, pretrain_steps=3).but(
    train_graphs=60, validation_graphs=11, test_graphs=7
)
# One search for every module on development seeds, and its result on the seeds of the table.
SEARCH = SCREEN.but(learning_rate=5e-3)
PRESETS = {"screen": SCREEN, "search": SEARCH, "tuned": SEARCH, "attribution": SEARCH, "tiny": TINY}


@register_experiment
class MotifLeaderboardExperiment(CensusExperiment):
    """Motif census for every module of the zoo, each with as many parameters as the anchored one.

    :func:`mooring.zoo.matched` equalises the budgets. The backbone learns to classify gadgets
    (:func:`~mooring.suite.motifs.experiment.learned_backbone`) and is then frozen. It is the same for all modules of a
    seed, so the comparison is between ways of counting.
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
