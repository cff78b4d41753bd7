"""Link-set problems: settings, geometry, solutions, and the rules that a link set must keep."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The position of a split is its random stream, so "train", "validation" and "test" are three samples of one
# distribution. New splits go at the end: an insertion would change every graph after it.
SPLITS: tuple[str, ...] = ("train", "validation", "test", "larger")

# In a disc of radius 1 no two nodes are farther apart.
DIAMETER = 2.0


@dataclass(frozen=True)
class LinkSettings:
    """Nodes in a disc of radius 1, and the rules of a link set. ``docs/linksets.md`` gives the reasons.

    Args:
        nodes: number of nodes, log-uniform, both ends included.
        larger_nodes: the same in split ``larger``.
        reach: largest distance of a candidate pair.
        sectors: equal angular sectors of each node, counted from its antenna's orientation.
        per_sector: most links in one sector of one node.
        degree: most links of one node.
        spread: log-ratio of the weights between two nodes of gain 1 and two of gain 0, at equal distance.
        decay: distance at which a weight has fallen by ``exp(-1/2)``.
    """

    nodes: tuple[int, int] = (8, 64)
    larger_nodes: tuple[int, int] = (80, 128)
    reach: float = 1.0
    sectors: int = 3
    per_sector: int = 3
    degree: int = 6
    spread: float = 6.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        for name in ("nodes", "larger_nodes"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"linksets: {name}=({low}, {high}) is empty. Pass the smaller end first.")
        # Weights are integers with 10^8 steps below the largest; past this span the smallest would be zero.
        span = self.spread + 0.5 * (self.reach / self.decay) ** 2 if self.decay > 0 else float("inf")
        others, room = self.nodes[0] - 1, self.sectors * self.per_sector
        rules = (
            (self.nodes[0] >= 2, f"nodes={self.nodes}, but a link needs two nodes. Start at 2 or above."),
            (
                self.larger_nodes[0] > self.nodes[1],
                f"larger_nodes starts at {self.larger_nodes[0]}, inside the training range {self.nodes}. "
                f"Start it at {self.nodes[1] + 1} or above.",
            ),
            (
                0 < self.reach <= DIAMETER,
                f"reach={self.reach} leaves no candidate pair or reaches past the disc. "
                f"Use a number above 0 and at most {DIAMETER:g}, the disc's diameter.",
            ),
            (
                self.spread >= 0 and span <= 14.0,
                f"spread={self.spread}, decay={self.decay} and reach={self.reach} give log-weights a span "
                f"of {span:.3g}; expected 0 to 14, because lighter links would all round to one weight. "
                "Lower spread or raise decay.",
            ),
            (
                min(self.sectors, self.per_sector, self.degree) >= 1,
                f"sectors={self.sectors}, per_sector={self.per_sector}, degree={self.degree}; each must be at least 1.",
            ),
            (
                self.sectors <= others,
                f"{self.sectors} sectors around a node that has at most {others} others to link to. "
                f"Use at most {others} sectors or start nodes at {self.sectors + 1}.",
            ),
            (
                self.per_sector <= self.degree,
                f"per_sector={self.per_sector} is above degree={self.degree}, so the sector rule could "
                "never bind. Lower per_sector or raise degree.",
            ),
            (
                self.degree <= room,
                f"degree={self.degree} is above what {self.sectors} sectors of {self.per_sector} have room "
                f"for ({room}), so the degree rule could never bind. Lower degree or raise per_sector.",
            ),
        )
        for holds, problem in rules:
            if not holds:
                raise ValueError(f"linksets: {problem}")

    def size_range(self, split: str) -> tuple[int, int]:
        """Return the smallest and largest number of nodes of a split."""
        if split not in SPLITS:
            raise ValueError(f"linksets: unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
        return self.larger_nodes if split == "larger" else self.nodes


# CP-SAT's codes of the two possible statuses; the empty set is always feasible.
STATUS_FEASIBLE = 2
STATUS_OPTIMAL = 4


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Nodes, candidate pairs and the optimal link set.

    Shapes:
        position [nodes, 2]; orientation, gain, parity [nodes]; pairs [2, pairs], first below second, each once;
        sector [2, pairs], the sector in which either end sees the other; weight, chosen [pairs].
    """

    position: NDArray[np.float64]
    orientation: NDArray[np.float64]
    gain: NDArray[np.float64]
    parity: NDArray[np.uint8]
    pairs: NDArray[np.int32]
    sector: NDArray[np.uint8]
    weight: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    status: int

    @property
    def num_nodes(self) -> int:
        return len(self.position)


def bearing(
    position: NDArray[np.float64], source: NDArray[np.integer], target: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return the direction in which each source sees its target, in radians from the x axis."""
    offset = position[target] - position[source]
    return np.arctan2(offset[:, 1], offset[:, 0])


def sector_of(direction: NDArray[np.float64], orientation: NDArray[np.float64], sectors: int) -> NDArray[np.uint8]:
    """Return the sector of a direction; sector 0 begins at the antenna's orientation, counter-clockwise."""
    turn = np.mod(direction - orientation, 2 * np.pi) / (2 * np.pi)
    # mod of a tiny negative angle is 2 pi in floating point, one past the last sector.
    return np.minimum(np.floor(turn * sectors), sectors - 1).astype(np.uint8)


def candidates(position: NDArray[np.float64], parity: NDArray[np.uint8], settings: LinkSettings) -> NDArray[np.int32]:
    """Return every pair of nodes within reach whose parities differ, ``[2, pairs]``."""
    first, second = np.triu_indices(len(position), 1)
    distance = np.linalg.norm(position[first] - position[second], axis=1)
    keep = (distance <= settings.reach) & (parity[first] != parity[second])
    return np.stack([first[keep], second[keep]]).astype(np.int32)


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

    ``links [nodes, nodes]`` is true if the row links to the column, and may be asymmetric. A graph without links breaks
    no rule.
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
