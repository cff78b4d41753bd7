"""Does a link set obey the rules? Judged from positions and angles alone, by none of the generator's tables."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.graph import LinkGraph
from mooring.suite.linksets.data.settings import LinkSettings

CONSTRAINTS: tuple[str, ...] = ("symmetry", "self_link", "parity", "reach", "degree", "sector")


def adjacency(graph: LinkGraph, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a choice among the candidate pairs as a matrix ``[nodes, nodes]``."""
    links = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.bool_)
    first, second = graph.pairs[:, chosen]
    links[first, second] = True
    links[second, first] = True
    return links


def violations(graph: LinkGraph, links: NDArray[np.bool_], settings: LinkSettings) -> dict[str, float]:
    """Return how much of a link set breaks each rule, as shares between 0 and 1.

    ``symmetry``, ``self_link``, ``parity`` and ``reach`` are shares of the links; ``degree`` is the share of nodes, and
    ``sector`` the share of (node, sector) cells, with more links than allowed.

    Args:
        graph: Whose nodes are linked.
        links: ``[nodes, nodes]``, true where row links to column; any matrix, so that broken ones can be judged.
        settings: The rules.

    A graph without links breaks nothing.
    """
    broken = dict.fromkeys(CONSTRAINTS, 0)
    degree = [0] * graph.num_nodes
    cells: dict[tuple[int, int], int] = {}
    rows, columns = np.nonzero(links)
    for here, there in zip(rows.tolist(), columns.tolist(), strict=True):
        offset = graph.position[there] - graph.position[here]
        broken["symmetry"] += not links[there, here]
        broken["self_link"] += here == there
        broken["parity"] += bool(graph.parity[here] == graph.parity[there])
        broken["reach"] += math.hypot(*offset) > settings.reach
        turn = (math.atan2(offset[1], offset[0]) - graph.orientation[here]) % math.tau
        cell = (here, min(int(turn / math.tau * settings.sectors), settings.sectors - 1))
        degree[here] += 1
        cells[cell] = cells.get(cell, 0) + 1
    broken["degree"] = sum(number > settings.degree for number in degree)
    broken["sector"] = sum(number > settings.per_sector for number in cells.values())
    whole = dict.fromkeys(CONSTRAINTS, max(len(rows), 1))
    whole["degree"] = max(graph.num_nodes, 1)
    whole["sector"] = max(graph.num_nodes * settings.sectors, 1)
    return {name: broken[name] / whole[name] for name in CONSTRAINTS}


def is_feasible(graph: LinkGraph, links: NDArray[np.bool_], settings: LinkSettings) -> bool:
    """Return whether a link set breaks no rule."""
    return not any(violations(graph, links, settings).values())
