"""Two-Radius experiments: ``two-radius`` and its variants."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {
    "two-radius": "experiment",
    "two-radius-permutation": "experiment",
    "two-radius-original": "original",
    "two-radius-leaderboard": "leaderboard",
}

__getattr__ = late(
    __name__,
    {
        "TwoRadiusConfig": "experiment",
        "TwoRadiusExperiment": "experiment",
        "PermutationConfig": "experiment",
        "PermutationExperiment": "experiment",
        "OriginalConfig": "original",
        "OriginalExperiment": "original",
        "OriginalNet": "original",
        "LeaderboardConfig": "leaderboard",
        "LeaderboardExperiment": "leaderboard",
        "Answer": "model",
        "TwoRadiusNet": "model",
    },
)
