"""Generator of link-set problems, pure functions of (settings, split, index, seed), with the optimum by CP-SAT."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data.graph import SPLITS, LinkGraph, LinkSettings, bearing, candidates, sector_of

# In CP-SAT's deterministic seconds, which are independent of the machine. Graphs of 128 nodes take about one. A problem
# that reaches the limit keeps its best set, with a status that records it.
TIME_LIMIT = 60.0


def solve(
    num_nodes: int,
    pairs: NDArray[np.int32],
    sector: NDArray[np.uint8],
    weight: NDArray[np.int64],
    settings: LinkSettings,
    *,
    excluded: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], int]:
    r"""Return the feasible link set of largest total weight, and CP-SAT's status (``STATUS_OPTIMAL`` if proven).

    .. math::
        \max_{x \in \{0,1\}^{pairs}} \sum_e w_e x_e \quad\text{s.t.}\quad
        \sum_{e \ni i} x_e \le D, \qquad \sum_{e \ni i,\ \text{sector}_i(e) = s} x_e \le q

    One worker and a fixed seed: the same problem always gives the same set.

    Pairs, sectors and weights are as in :class:`~mooring.suite.linksets.data.LinkGraph`; ``excluded`` is a link set to
    exclude, to search for a second optimum. Without candidates the empty set is optimal.
    """
    model_module = _cp_model()
    model = model_module.CpModel()
    link = [model.new_bool_var("") for _ in weight]
    for bound, groups in (
        (settings.degree, groups_of(pairs.astype(np.int64))),
        (settings.per_sector, groups_of(pairs.astype(np.int64) * settings.sectors + sector)),
    ):
        for group in groups:
            # A group within its bound is no constraint.
            if len(group) > bound:
                model.add(sum(link[edge] for edge in group) <= bound)
    if excluded is not None:
        model.add_bool_or([~variable if used else variable for variable, used in zip(link, excluded, strict=True)])
    model.maximize(model_module.LinearExpr.weighted_sum(link, [int(value) for value in weight]))
    solver = model_module.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = TIME_LIMIT
    status = solver.solve(model)
    if status not in (model_module.OPTIMAL, model_module.FEASIBLE):
        raise RuntimeError(
            f"linksets: CP-SAT ended with {solver.status_name(status)} on {num_nodes} nodes and {len(weight)} pairs, "
            "though the empty set is feasible."
        )
    return np.array([solver.boolean_value(variable) for variable in link], dtype=np.bool_), int(status)


def groups_of(keys: NDArray[np.int64]) -> list[list[int]]:
    """Return the pairs that share a key at one of their ends, ``keys [2, pairs]``, as lists of pair indices."""
    groups: dict[int, list[int]] = {}
    for end in keys.tolist():
        for pair, key in enumerate(end):
            groups.setdefault(key, []).append(pair)
    return list(groups.values())


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ImportError(
            "linksets: optimal link sets are found with OR-tools, which is not installed. "
            "Install it with: pip install 'mooring[links]'"
        ) from error
    return cp_model


# The largest possible weight. Fine enough that ties do not happen (see link_weight), small enough that a sum over all
# links of a graph is far below the solver's 64-bit limit.
TOP_WEIGHT = 10**8


def generate(settings: LinkSettings, split: str, index: int, seed: int) -> LinkGraph:
    """Generate graph ``index`` of a split with its optimal link set.

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

    with spread :math:`s` and decay :math:`\ell`: a link budget, two antenna gains minus a path loss. The weights are
    generic (functions of continuous variables, on a fine grid), so no two link sets have the same weight and the
    optimum is unique. They are integers, so the solver compares totals exactly.
    """
    distance = np.linalg.norm(position[pairs[0]] - position[pairs[1]], axis=1)
    budget = settings.spread * (0.5 * (gain[pairs[0]] + gain[pairs[1]]) - 1.0)
    loss = 0.5 * (distance / settings.decay) ** 2
    return np.rint(TOP_WEIGHT * np.exp(budget - loss)).astype(np.int64)
