"""Two-Radius as trainable experiments: ``two-radius`` and, after a dash, its kin."""

from .experiment import TwoRadiusConfig, TwoRadiusExperiment
from .leaderboard import LeaderboardConfig, LeaderboardExperiment
from .model import Answer, TwoRadiusNet
from .original import OriginalConfig, OriginalExperiment
from .original_model import OriginalNet
from .permutation import PermutationConfig, PermutationExperiment

__all__ = [
    "Answer",
    "LeaderboardConfig",
    "LeaderboardExperiment",
    "OriginalConfig",
    "OriginalExperiment",
    "OriginalNet",
    "PermutationConfig",
    "PermutationExperiment",
    "TwoRadiusConfig",
    "TwoRadiusExperiment",
    "TwoRadiusNet",
]
