"""Scores into feasible link sets, one link at a time, best first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.graph import LinkGraph
from mooring.suite.linksets.data.settings import LinkSettings


def greedy(graph: LinkGraph, settings: LinkSettings) -> NDArray[np.bool_]:
    """Return the link set that takes the heaviest link that still fits, again and again.

    What a user would do instead of training a model or calling a solver.
    """
    return _best_first(graph, graph.weight, np.ones(len(graph.weight), dtype=np.bool_), settings)


def feasible(
    graph: LinkGraph, probability: NDArray[np.floating], settings: LinkSettings, *, threshold: float = 0.5
) -> NDArray[np.bool_]:
    """Return a feasible link set from a model's probabilities: the likeliest link that still fits, again and again.

    Only pairs at or above the threshold are taken; ties go to the lower pair number.
    """
    if probability.shape != graph.weight.shape:
        raise ValueError(
            f"feasible: probability has shape {probability.shape} but the graph has {len(graph.weight)} candidate "
            "pairs. Give one probability a pair."
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
