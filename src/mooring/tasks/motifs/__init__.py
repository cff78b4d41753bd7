"""Planted motif census: graphs whose six rooted motifs are to be counted (the paper's benchmark B)."""

from mooring.tasks.motifs.dataset import MotifDataset, generate_many
from mooring.tasks.motifs.generator import generate
from mooring.tasks.motifs.graph import MotifGraph
from mooring.tasks.motifs.recount import check, recount
from mooring.tasks.motifs.settings import SPLITS, TEST_SPLITS, MotifSettings
from mooring.tasks.motifs.shapes import DISTRACTORS, MOTIF_NAMES, MOTIFS, Shape

__all__ = [
    "DISTRACTORS",
    "MOTIFS",
    "MOTIF_NAMES",
    "SPLITS",
    "TEST_SPLITS",
    "MotifDataset",
    "MotifGraph",
    "MotifSettings",
    "Shape",
    "check",
    "generate",
    "generate_many",
    "recount",
]
