"""Constrained link sets: generator, exact solver, greedy reference, decoding and rule checks.

>>> graph = generate(LinkSettings(), "test", index=0, seed=0)
>>> is_feasible(graph, adjacency(graph, graph.chosen), LinkSettings())
True
"""

from mooring.suite.linksets.data.dataset import LinkBatch, LinkDataset, cached, collate, generate_many
from mooring.suite.linksets.data.generator import generate, solve
from mooring.suite.linksets.data.graph import (
    CONSTRAINTS,
    SPLITS,
    STATUS_FEASIBLE,
    STATUS_OPTIMAL,
    LinkGraph,
    LinkSettings,
    adjacency,
    feasible,
    greedy,
    is_feasible,
    violations,
)

__all__ = [
    "CONSTRAINTS", "SPLITS", "STATUS_FEASIBLE", "STATUS_OPTIMAL", "LinkBatch", "LinkDataset", "LinkGraph",
    "LinkSettings", "adjacency", "cached", "collate", "feasible", "generate", "generate_many", "greedy", "is_feasible",
    "solve", "violations",
]  # fmt: skip
