"""Motif census: one local backbone, eight readouts, or any global module of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"motifs": "experiment", "motifs-leaderboard": "experiment"}

__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(
            ("MotifConfig", "MotifExperiment", "MotifLeaderboardConfig", "MotifLeaderboardExperiment"), "experiment"
        ),
        **dict.fromkeys(("GINBackbone", "MotifNet", "NORMALISED", "READOUTS", "Readout", "ReadoutSpec"), "model"),
    },
)
