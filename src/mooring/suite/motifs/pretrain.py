"""A backbone that can name gadgets before anyone counts them: what is then compared is the counting."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mooring.suite.motifs.batch import MotifBatch, cached_census, collate
from mooring.suite.motifs.config import MotifConfig
from mooring.suite.motifs.data.shapes import DISTRACTORS, MOTIFS
from mooring.suite.motifs.model import GINBackbone

LEARNING_RATE = 3e-3
CLASSES = 1 + len(MOTIFS) + len(DISTRACTORS)


def learned_backbone(config: MotifConfig, seed: int) -> GINBackbone:
    """A backbone that learned from single nodes which gadget has its root there; a pure function of both arguments.

    The caller's random numbers stay as they were, so that readouts of one seed meet the same backbone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = GINBackbone(config.num_types, config.channels, config.layers)
        classify = nn.Linear(config.channels, CLASSES)
        optimizer = torch.optim.AdamW([*backbone.parameters(), *classify.parameters()], LEARNING_RATE, weight_decay=0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, max(config.pretrain_steps, 2))
        train = cached_census(config.census, "train", config.train_graphs, seed)
        rng = np.random.default_rng((seed, 1))
        with torch.enable_grad():
            for _ in range(config.pretrain_steps):
                batch = collate(train, rng.integers(len(train), size=config.batch_size), config.num_types)
                loss = _loss(classify(backbone(batch.x, batch.edge_index)), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return backbone


def _loss(logits: torch.Tensor, batch: MotifBatch) -> torch.Tensor:
    """Roots and other nodes count alike, though roots are few."""
    each = functional.cross_entropy(logits, batch.planted, reduction="none")
    roots = batch.planted > 0
    return each[roots].mean() + each[~roots].mean()
