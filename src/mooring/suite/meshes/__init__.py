"""Learned solvers on meshes: heat and stress on plates with holes, one local network, any global module of the zoo."""

from mooring.suite import late

#: The tasks of this folder, and the module that registers each.
TASKS = {"meshes": "experiment"}

__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(("MeshConfig", "MeshExperiment"), "experiment"),
        **dict.fromkeys(("MeshNet", "relative_errors"), "model"),
    },
)
