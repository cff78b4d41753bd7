"""Two-Radius as trainable experiments: ``two-radius``, ``two-radius-permutation`` and ``two-radius-original``."""

from .experiment import TwoRadiusConfig, TwoRadiusExperiment
from .model import Answer, TwoRadiusNet
from .original import OriginalConfig, OriginalExperiment
from .original_model import OriginalNet
from .permutation import PermutationConfig, PermutationExperiment

__all__ = [
    "Answer",
    "OriginalConfig",
    "OriginalExperiment",
    "OriginalNet",
    "PermutationConfig",
    "PermutationExperiment",
    "TwoRadiusConfig",
    "TwoRadiusExperiment",
    "TwoRadiusNet",
]
