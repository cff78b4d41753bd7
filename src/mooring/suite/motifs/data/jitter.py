"""Perturbations that keep every label true: degree-preserving swaps outside the gadgets, and new node types."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rewire(
    frame: NDArray[np.int32], num_background: int, num_swaps: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Swap the ends of ``num_swaps`` pairs of edges: ``(a, b), (c, d) -> (a, d), (c, b)``.

    Every degree stays, the frame stays connected and simple, and every root keeps exactly one edge, to a background
    node: so every gadget stays hung by one bridge at its root, and no count changes. Where few swaps are allowed
    (a tree offers hardly any) fewer are made.

    Args:
        frame: Background edges and bridges, [2, edges]; a node from ``num_background`` on is a root.
        num_background: Number of background nodes.
        num_swaps: How many swaps to make.
        rng: Source of the choices.
    """
    edges: list[tuple[int, int]] = list(zip(frame[0].tolist(), frame[1].tolist(), strict=True))
    if len(edges) < 2:
        return frame
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    # About half of the proposals are allowed; the cap is there for frames that allow none.
    proposals = rng.integers(0, (len(edges), len(edges), 2), size=(10 * num_swaps, 3)).tolist()
    made = 0
    for first, second, flipped in proposals:
        if made == num_swaps:
            break
        a, b = edges[first]
        c, d = edges[second][::-1] if flipped else edges[second]
        if len({a, b, c, d}) < 4 or d in neighbours[a] or b in neighbours[c]:
            continue
        if min(a, d) >= num_background or min(c, b) >= num_background:
            continue
        _replace(neighbours, (a, b), (c, d))
        if _reaches(neighbours, a, c):
            edges[first], edges[second] = (a, d), (c, b)
            made += 1
        else:
            _replace(neighbours, (a, d), (c, b))
    return np.array(edges, dtype=np.int32).T


def retype(types: NDArray[np.uint8], num_types: int, share: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw the type of about ``share`` of the nodes again, uniformly over ``num_types``."""
    fresh = rng.integers(0, num_types, size=len(types), dtype=np.uint8)
    return np.where(rng.random(len(types)) < share, fresh, types)


def _replace(neighbours: dict[int, set[int]], first: tuple[int, int], second: tuple[int, int]) -> None:
    (a, b), (c, d) = first, second
    neighbours[a].remove(b)
    neighbours[b].remove(a)
    neighbours[c].remove(d)
    neighbours[d].remove(c)
    neighbours[a].add(d)
    neighbours[d].add(a)
    neighbours[c].add(b)
    neighbours[b].add(c)


def _reaches(neighbours: dict[int, set[int]], start: int, goal: int) -> bool:
    # Before the swap all was connected, so every component now holds a swapped end, and a-d and c-b are joined:
    # the whole is connected if and only if a reaches c.
    seen = {start}
    frontier = [start]
    while frontier:
        for node in neighbours[frontier.pop()]:
            if node == goal:
                return True
            if node not in seen:
                seen.add(node)
                frontier.append(node)
    return False
