"""Link-set problem with its solution, the rules, and their geometry."""

from __future__ import annotations

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
        if self.nodes[0] < 2:
            raise ValueError(f"linksets: nodes={self.nodes}, but a link needs two nodes. Start at 2 or above.")
        if self.larger_nodes[0] <= self.nodes[1]:
            raise ValueError(
                f"linksets: larger_nodes starts at {self.larger_nodes[0]}, inside the training range {self.nodes}. "
                f"Start it at {self.nodes[1] + 1} or above."
            )
        if not 0 < self.reach <= DIAMETER:
            raise ValueError(
                f"linksets: reach={self.reach} leaves no candidate pair or reaches past the disc. "
                f"Use a number above 0 and at most {DIAMETER:g}, the disc's diameter."
            )
        self._check_weights()
        self._check_bounds()

    def _check_weights(self) -> None:
        # Weights are integers with 10^8 steps below the largest; past this span the smallest would be zero.
        span = self.spread + 0.5 * (self.reach / self.decay) ** 2 if self.decay > 0 else float("inf")
        if self.spread < 0 or not span <= 14.0:
            raise ValueError(
                f"linksets: spread={self.spread}, decay={self.decay} and reach={self.reach} give log-weights a span "
                f"of {span:.3g}; expected 0 to 14, because lighter links would all round to one weight. "
                "Lower spread or raise decay."
            )

    def _check_bounds(self) -> None:
        if min(self.sectors, self.per_sector, self.degree) < 1:
            raise ValueError(
                f"linksets: sectors={self.sectors}, per_sector={self.per_sector}, degree={self.degree}; "
                "each must be at least 1."
            )
        if self.sectors > self.nodes[0] - 1:
            raise ValueError(
                f"linksets: {self.sectors} sectors around a node that has at most {self.nodes[0] - 1} others to link "
                f"to. Use at most {self.nodes[0] - 1} sectors or start nodes at {self.sectors + 1}."
            )
        if self.per_sector > self.degree:
            raise ValueError(
                f"linksets: per_sector={self.per_sector} is above degree={self.degree}, so the sector rule could "
                "never bind. Lower per_sector or raise degree."
            )
        if self.degree > self.sectors * self.per_sector:
            raise ValueError(
                f"linksets: degree={self.degree} is above what {self.sectors} sectors of {self.per_sector} have room "
                f"for ({self.sectors * self.per_sector}), so the degree rule could never bind. Lower degree or raise "
                "per_sector."
            )

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
