"""Constrained link sets: no local messages, one pair decoder, any global memory of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"linksets": "experiment"}

__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(("LinkConfig", "LinkExperiment"), "experiment"),
        **dict.fromkeys(("LinkNet", "NodeFeatures", "PairDecoder", "matched_sizes"), "model"),
    },
)
