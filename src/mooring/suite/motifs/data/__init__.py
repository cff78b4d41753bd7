"""Planted motif census: graphs whose six rooted motifs must be counted (the paper's benchmark B)."""

from mooring.suite.motifs.data.generator import cached_census, generate, generate_many
from mooring.suite.motifs.data.graph import (
    DISTRACTORS,
    MOTIF_NAMES,
    MOTIFS,
    SPLITS,
    TEST_SPLITS,
    MotifBatch,
    MotifDataset,
    MotifGraph,
    MotifSettings,
    Shape,
    collate,
)

__all__ = [
    "DISTRACTORS", "MOTIFS", "MOTIF_NAMES", "SPLITS", "TEST_SPLITS", "MotifBatch", "MotifDataset", "MotifGraph",
    "MotifSettings", "Shape", "cached_census", "collate", "generate", "generate_many",
]  # fmt: skip
