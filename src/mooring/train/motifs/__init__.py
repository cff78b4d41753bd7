"""Training on the motif census: one local backbone, eight readouts."""

from mooring.train.motifs.config import MotifConfig
from mooring.train.motifs.experiment import MotifExperiment
from mooring.train.motifs.leaderboard import MotifLeaderboardExperiment
from mooring.train.motifs.model import GINBackbone, MotifNet
from mooring.train.motifs.readouts import NORMALISED, READOUTS, Readout, ReadoutSpec

__all__ = [
    "NORMALISED",
    "READOUTS",
    "GINBackbone",
    "MotifConfig",
    "MotifExperiment",
    "MotifLeaderboardExperiment",
    "MotifNet",
    "Readout",
    "ReadoutSpec",
]
