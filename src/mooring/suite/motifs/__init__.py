"""Motif census: one local backbone, eight readouts, or any global module of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"motifs": "experiment", "motifs-leaderboard": "leaderboard"}

__getattr__ = late(
    __name__,
    {
        "MotifConfig": "experiment",
        "MotifExperiment": "experiment",
        "MotifLeaderboardConfig": "leaderboard",
        "MotifLeaderboardExperiment": "leaderboard",
        "GINBackbone": "model",
        "MotifNet": "model",
        "NORMALISED": "model",
        "READOUTS": "model",
        "Readout": "model",
        "ReadoutSpec": "model",
    },
)
