"""Constrained link sets: generator, exact solver, greedy reference, decoding and rule checks.

>>> graph = generate(LinkSettings(), "test", index=0, seed=0)
>>> is_feasible(graph, adjacency(graph, graph.chosen), LinkSettings())
True
"""

from mooring.tasks.linksets.check import CONSTRAINTS, adjacency, is_feasible, violations
from mooring.tasks.linksets.dataset import LinkDataset, cached, generate_many
from mooring.tasks.linksets.decode import feasible, greedy
from mooring.tasks.linksets.generator import generate
from mooring.tasks.linksets.graph import STATUS_FEASIBLE, STATUS_OPTIMAL, LinkGraph
from mooring.tasks.linksets.settings import SPLITS, LinkSettings
from mooring.tasks.linksets.solver import solve

__all__ = [
    "CONSTRAINTS",
    "SPLITS",
    "STATUS_FEASIBLE",
    "STATUS_OPTIMAL",
    "LinkDataset",
    "LinkGraph",
    "LinkSettings",
    "adjacency",
    "cached",
    "feasible",
    "generate",
    "generate_many",
    "greedy",
    "is_feasible",
    "solve",
    "violations",
]
