"""Two-Radius experiments: ``two-radius`` and its variants."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {
    "two-radius": "experiment",
    "two-radius-permutation": "labels",
    "two-radius-original": "labels",
    "two-radius-leaderboard": "experiment",
}

__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(
            ("TwoRadiusConfig", "TwoRadiusExperiment", "LeaderboardConfig", "LeaderboardExperiment"), "experiment"
        ),
        **dict.fromkeys(
            ("PermutationConfig", "PermutationExperiment", "OriginalConfig", "OriginalExperiment", "OriginalNet"),
            "labels",
        ),
        **dict.fromkeys(("Answer", "TwoRadiusNet"), "model"),
    },
)
