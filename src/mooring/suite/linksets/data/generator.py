"""Random link-set problems, each a pure function of (settings, split, index, seed)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.graph import LinkGraph, bearing, candidates, sector_of
from mooring.suite.linksets.data.settings import SPLITS, LinkSettings
from mooring.suite.linksets.data.solver import solve

# The heaviest possible link. Fine enough that ties do not happen (see link_weight), small enough that a sum over all
# links of a graph stays far inside the solver's 64-bit integers.
TOP_WEIGHT = 10**8


def generate(settings: LinkSettings, split: str, index: int, seed: int) -> LinkGraph:
    """Return graph ``index`` of a split with its optimal link set.

    Positions are uniform in the unit disc, so the distribution has no preferred direction; orientation, gain and
    parity are uniform and independent.
    """
    low, high = settings.size_range(split)
    rng = np.random.default_rng((seed, SPLITS.index(split), index))
    num_nodes = min(int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))), high)
    radius, angle = np.sqrt(rng.random(num_nodes)), 2 * np.pi * rng.random(num_nodes)
    position = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    orientation = 2 * np.pi * rng.random(num_nodes)
    gain = rng.random(num_nodes)
    parity = rng.integers(0, 2, num_nodes, dtype=np.uint8)
    pairs = candidates(position, parity, settings)
    sector = np.stack(
        [
            sector_of(bearing(position, here, there), orientation[here], settings.sectors)
            for here, there in ((pairs[0], pairs[1]), (pairs[1], pairs[0]))
        ]
    )
    weight = link_weight(position, gain, pairs, settings)
    chosen, status = solve(num_nodes, pairs, sector, weight, settings)
    return LinkGraph(position, orientation, gain, parity, pairs, sector, weight, chosen, status)


def link_weight(
    position: NDArray[np.float64], gain: NDArray[np.float64], pairs: NDArray[np.int32], settings: LinkSettings
) -> NDArray[np.int64]:
    r"""Return the integer weight of each pair, symmetric in its two nodes.

    .. math::
        w_{ij} = 10^8 \exp\bigl(\tfrac{s}{2} (g_i + g_j) - s - \tfrac12 (d_{ij} / \ell)^2\bigr)

    with spread :math:`s` and decay :math:`\ell`: a link budget, two antenna gains less a path loss. The weights are
    generic (functions of continuous variables, on a fine grid), so that no two link sets weigh the same and the
    optimum is unique; integers, so that the solver compares totals exactly.
    """
    distance = np.linalg.norm(position[pairs[0]] - position[pairs[1]], axis=1)
    budget = settings.spread * (0.5 * (gain[pairs[0]] + gain[pairs[1]]) - 1.0)
    loss = 0.5 * (distance / settings.decay) ** 2
    return np.rint(TOP_WEIGHT * np.exp(budget - loss)).astype(np.int64)
