"""Decoding of link sets from scores, and rule checks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.graph import LinkGraph, LinkSettings


def greedy(graph: LinkGraph, settings: LinkSettings) -> NDArray[np.bool_]:
    """Build a link set greedily: add the heaviest link that still fits until none does.

    The baseline of a user without a model or a solver.
    """
    return _best_first(graph, graph.weight, np.ones(len(graph.weight), dtype=np.bool_), settings)


def feasible(
    graph: LinkGraph, probability: NDArray[np.floating], settings: LinkSettings, *, threshold: float = 0.5
) -> NDArray[np.bool_]:
    """Build a feasible link set from probabilities: add the likeliest link that still fits until none does.

    Only pairs at or above the threshold are added; ties go to the lower pair index.
    """
    if probability.shape != graph.weight.shape:
        raise ValueError(
            f"feasible: probability has shape {probability.shape} but the graph has {len(graph.weight)} candidate "
            "pairs. Pass one probability per pair."
        )
    return _best_first(graph, probability, probability >= threshold, settings)


def _best_first(
    graph: LinkGraph, score: NDArray[np.number], allowed: NDArray[np.bool_], settings: LinkSettings
) -> NDArray[np.bool_]:
    chosen = np.zeros(len(score), dtype=np.bool_)
    node_room = [settings.degree] * graph.num_nodes
    sector_room = [settings.per_sector] * (graph.num_nodes * settings.sectors)
    cells = graph.pairs.astype(np.int64) * settings.sectors + graph.sector
    ends = np.concatenate([graph.pairs, cells]).T.tolist()
    for pair in np.argsort(-score, kind="stable").tolist():
        first, second, first_cell, second_cell = ends[pair]
        if not allowed[pair] or not (node_room[first] and node_room[second]):
            continue
        if sector_room[first_cell] and sector_room[second_cell]:
            chosen[pair] = True
            for node, cell in ((first, first_cell), (second, second_cell)):
                node_room[node] -= 1
                sector_room[cell] -= 1
    return chosen


CONSTRAINTS: tuple[str, ...] = ("symmetry", "self_link", "parity", "reach", "degree", "sector")


def adjacency(graph: LinkGraph, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a choice among the candidate pairs as a matrix ``[nodes, nodes]``."""
    links = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.bool_)
    first, second = graph.pairs[:, chosen]
    links[first, second] = True
    links[second, first] = True
    return links


def violations(graph: LinkGraph, links: NDArray[np.bool_], settings: LinkSettings) -> dict[str, float]:
    """Return the share of a link set that breaks each rule, between 0 and 1.

    ``symmetry``, ``self_link``, ``parity`` and ``reach`` are shares of the links; ``degree`` is the share of nodes, and
    ``sector`` the share of (node, sector) cells, with more links than allowed.

    Args:
        graph: the graph.
        links: ``[nodes, nodes]``, true if the row links to the column; asymmetric matrices are allowed.
        settings: the rules.

    A graph without links breaks no rule.
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
