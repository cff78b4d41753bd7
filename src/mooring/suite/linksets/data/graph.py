"""One link-set problem with its answer, and the geometry that both are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.settings import LinkSettings

# CP-SAT's own numbers for the two statuses a maximisation that always has the empty set can end with.
STATUS_FEASIBLE = 2
STATUS_OPTIMAL = 4


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Nodes, candidate pairs and the optimal link set.

    Shapes:
        position [nodes, 2]; orientation, gain, parity [nodes]; pairs [2, pairs], first below second, each once;
        sector [2, pairs], where either end sees the other; weight, chosen [pairs].
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
    """Return the sector a direction falls in; sector 0 begins at the antenna's orientation, counter-clockwise."""
    turn = np.mod(direction - orientation, 2 * np.pi) / (2 * np.pi)
    # mod of a tiny negative angle is 2 pi itself in floating point, one past the last sector.
    return np.minimum(np.floor(turn * sectors), sectors - 1).astype(np.uint8)


def candidates(position: NDArray[np.float64], parity: NDArray[np.uint8], settings: LinkSettings) -> NDArray[np.int32]:
    """Return every pair of nodes in reach whose parities differ, ``[2, pairs]``."""
    first, second = np.triu_indices(len(position), 1)
    distance = np.linalg.norm(position[first] - position[second], axis=1)
    keep = (distance <= settings.reach) & (parity[first] != parity[second])
    return np.stack([first[keep], second[keep]]).astype(np.int32)
