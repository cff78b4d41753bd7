"""Learned solvers on meshes: heat and stress on plates with holes, one local network, any global module of the zoo."""

#: The tasks of this folder, and the module that registers each.
TASKS: dict[str, str] = {}
