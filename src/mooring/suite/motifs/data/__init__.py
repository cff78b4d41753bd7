"""Planted motif census: graphs whose six rooted motifs are to be counted (the paper's benchmark B)."""

from mooring.suite.motifs.data.dataset import MotifDataset, generate_many
from mooring.suite.motifs.data.generator import generate
from mooring.suite.motifs.data.graph import MotifGraph
from mooring.suite.motifs.data.recount import check, recount
from mooring.suite.motifs.data.settings import SPLITS, TEST_SPLITS, MotifSettings
from mooring.suite.motifs.data.shapes import DISTRACTORS, MOTIF_NAMES, MOTIFS, Shape

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
