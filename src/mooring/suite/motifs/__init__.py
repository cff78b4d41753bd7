"""Training on the motif census: one local backbone, eight readouts."""

from mooring.suite.motifs.config import MotifConfig
from mooring.suite.motifs.experiment import MotifExperiment
from mooring.suite.motifs.leaderboard import MotifLeaderboardExperiment
from mooring.suite.motifs.model import GINBackbone, MotifNet
from mooring.suite.motifs.readouts import NORMALISED, READOUTS, Readout, ReadoutSpec

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
