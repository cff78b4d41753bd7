"""Constrained link sets: no local messages, one pair decoder, any global memory of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"linksets": "experiment"}

__getattr__ = late(
    __name__,
    {
        "LinkConfig": "experiment",
        "LinkExperiment": "experiment",
        "LinkNet": "model",
        "NodeFeatures": "model",
        "PairDecoder": "decoder",
        "matched_sizes": "model",
    },
)
