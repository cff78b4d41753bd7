"""Constrained link sets: generator, exact solver, greedy reference, decoding and rule checks.

>>> graph = generate(LinkSettings(), "test", index=0, seed=0)
>>> is_feasible(graph, adjacency(graph, graph.chosen), LinkSettings())
True
"""

from mooring.suite.linksets.data.check import CONSTRAINTS, adjacency, is_feasible, violations
from mooring.suite.linksets.data.dataset import LinkDataset, cached, generate_many
from mooring.suite.linksets.data.decode import feasible, greedy
from mooring.suite.linksets.data.generator import generate
from mooring.suite.linksets.data.graph import STATUS_FEASIBLE, STATUS_OPTIMAL, LinkGraph
from mooring.suite.linksets.data.settings import SPLITS, LinkSettings
from mooring.suite.linksets.data.solver import solve

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
