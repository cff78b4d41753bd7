"""Generator of census graphs: a connected random background with rooted gadgets, a pure function of the index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from mooring.suite import generated
from mooring.suite.motifs.data.graph import (
    DISTRACTORS,
    MOTIFS,
    SPLITS,
    MotifDataset,
    MotifGraph,
    MotifSettings,
    union,
)

_CHUNK = 125  # graphs per message between processes: about 0.1 s of work


def rewire(
    frame: NDArray[np.int32], num_background: int, num_swaps: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Swap the ends of ``num_swaps`` pairs of edges: ``(a, b), (c, d) -> (a, d), (c, b)``.

    Degrees are unchanged, the frame remains connected and simple, and every root keeps exactly one edge, to a
    background node. So every gadget is still connected by one bridge at its root, and no count changes. If few swaps
    are possible (as in a tree), fewer are made.

    ``frame`` has the background edges and bridges, [2, edges]; its nodes from ``num_background`` on are roots.
    """
    edges: list[tuple[int, int]] = list(zip(frame[0].tolist(), frame[1].tolist(), strict=True))
    if len(edges) < 2:
        return frame
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    # About half of the proposals are valid; the cap ends the loop for frames without valid swaps.
    proposals = rng.integers(0, (len(edges), len(edges), 2), size=(10 * num_swaps, 3)).tolist()
    swaps = 0
    for first, second, flipped in proposals:
        if swaps == num_swaps:
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
            swaps += 1
        else:
            _replace(neighbours, (a, d), (c, b))
    return np.array(edges, dtype=np.int32).T


def retype(types: NDArray[np.uint8], num_types: int, share: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Redraw the type of about ``share`` of the nodes, uniformly over ``num_types``."""
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
    # Before the swap the graph was connected, so every component now contains a swapped end, and a-d and c-b are
    # joined. So the graph is connected if and only if a reaches c.
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


_SHAPES = MOTIFS + DISTRACTORS
_NUM_NODES = np.array([shape.num_nodes for shape in _SHAPES])
_NUM_EDGES = np.array([len(shape.edges) for shape in _SHAPES])
_FIRST_EDGE = np.cumsum(_NUM_EDGES) - _NUM_EDGES
_EDGES = np.array([edge for shape in _SHAPES for edge in shape.edges], dtype=np.int32).T


@dataclass(frozen=True, eq=False)
class _Plan:
    """Graph before its nodes are shuffled: background nodes first, then the gadgets one after the other."""

    num_background: int
    frame: NDArray[np.int32]  # background edges and one bridge per gadget; may be rewired
    gadgets: NDArray[np.int32]  # edges inside gadgets; never rewired
    roots: NDArray[np.int64]
    types: NDArray[np.uint8]
    counts: NDArray[np.int32]
    distractors: NDArray[np.int32]


def generate(settings: MotifSettings, split: str, index: int, seed: int) -> MotifGraph:
    r"""Generate graph ``index`` of a split; the target is :math:`\log(1+c)` for :math:`c` in the order of app:motifs.

    A motif occurs at a marked root if some node set that contains the root induces the motif with its root there, and
    exactly one edge leaves the set, at the root. One bridge connects the root of each gadget to a background node, so a
    root has exactly one such set smaller than the background: the planted gadget.

    Paper: app:motifs; the splits are those of its second paragraph.

    In the splits ``replicated`` and ``jittered`` it has copies of graph ``index`` of ``iid``.

    >>> graph = generate(MotifSettings(), "iid", index=0, seed=0)
    >>> int(graph.marker.sum()) == int(graph.counts.sum() + graph.distractors.sum())
    True
    """
    if split not in SPLITS:
        raise ValueError(f"motifs: unknown split {split!r}. Use one of {', '.join(SPLITS)}.")
    if index < 0 or seed < 0:
        raise ValueError(f"motifs: index={index} and seed={seed} must not be negative.")
    rng = np.random.default_rng((seed, SPLITS.index(split), index))
    if split not in ("replicated", "jittered"):
        return _shuffled(_plan(settings, split, rng), rng)
    source = np.random.default_rng((seed, SPLITS.index("iid"), index))
    plan = _plan(settings, "iid", source)
    copies = int(rng.integers(settings.copies[0], settings.copies[1] + 1))
    if split == "replicated":
        return union([_shuffled(plan, source)] * copies)
    return union([_shuffled(_jittered(plan, settings, rng), rng) for _ in range(copies)])


def _plan(settings: MotifSettings, split: str, rng: np.random.Generator) -> _Plan:
    counts, distractors = _draw_counts(settings, split, rng)
    low, high = settings.ood_background if split == "background" else settings.background
    num_background = int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))
    shapes = np.repeat(np.arange(len(_SHAPES)), np.concatenate([counts, distractors]))
    num_nodes = _NUM_NODES[shapes]
    roots = num_background + np.cumsum(num_nodes) - num_nodes
    total = num_background + int(num_nodes.sum())

    num_edges = _NUM_EDGES[shapes]
    position = np.arange(int(num_edges.sum())) - np.repeat(np.cumsum(num_edges) - num_edges, num_edges)
    gadgets = _EDGES[:, np.repeat(_FIRST_EDGE[shapes], num_edges) + position] + np.repeat(roots, num_edges)
    bridges = np.stack([rng.integers(0, num_background, size=len(shapes)), roots])
    background = _background(num_background, round(settings.extra_edges * num_background), rng)

    return _Plan(
        num_background=num_background,
        frame=np.concatenate([background, bridges], axis=1).astype(np.int32),
        gadgets=gadgets.astype(np.int32),
        roots=roots,
        types=rng.integers(0, settings.num_types, size=total, dtype=np.uint8),
        counts=counts.astype(np.int32),
        distractors=distractors.astype(np.int32),
    )


def _draw_counts(
    settings: MotifSettings, split: str, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    counts = rng.integers(0, settings.max_count + 1, size=len(MOTIFS))
    distractors = rng.integers(0, settings.max_distractors + 1, size=len(DISTRACTORS))
    if split == "counts":
        counts = rng.integers(settings.ood_counts[0], settings.ood_counts[1] + 1, size=len(MOTIFS))
    elif split == "mixture":
        # Every count is inside the training range; only the combinations are new.
        counts = rng.integers(0, 2, size=len(MOTIFS))
        common = rng.permutation(len(MOTIFS))[:2]
        counts[common] = rng.integers(settings.max_count // 2 + 1, settings.max_count + 1, size=2)
        distractors = np.zeros(len(DISTRACTORS), dtype=np.int64)
        distractors[rng.integers(len(DISTRACTORS))] = settings.max_distractors
    return counts, distractors


def _background(num_nodes: int, num_extra: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a random recursive tree, which is connected, and ``num_extra`` further distinct edges."""
    child = np.arange(1, num_nodes)
    parent = (rng.random(num_nodes - 1) * child).astype(np.int64)
    codes = parent * num_nodes + child
    num_edges = num_nodes - 1 + num_extra
    while len(codes) < num_edges:
        pairs = rng.integers(0, num_nodes, size=(2, 2 * num_extra + 8))
        low, high = pairs.min(axis=0), pairs.max(axis=0)
        drawn = np.concatenate([codes, (low * num_nodes + high)[low < high]])
        # Keep the first of each code in the order drawn: sorting by code would favour low-numbered nodes.
        codes = drawn[np.sort(np.unique(drawn, return_index=True)[1])][:num_edges]
    return np.stack(np.divmod(codes, num_nodes))


def _jittered(plan: _Plan, settings: MotifSettings, rng: np.random.Generator) -> _Plan:
    num_swaps = round(settings.rewired * plan.frame.shape[1])
    frame = rewire(plan.frame, plan.num_background, num_swaps, rng)
    return replace(plan, frame=frame, types=retype(plan.types, settings.num_types, settings.retyped, rng))


def _shuffled(plan: _Plan, rng: np.random.Generator) -> MotifGraph:
    """Number the nodes at random, so that a node's number is independent of its gadget."""
    number = rng.permutation(len(plan.types)).astype(np.int32)
    types = np.empty_like(plan.types)
    types[number] = plan.types
    # Roots are in the order of the gadgets: all of one kind, then all of the next.
    planted = np.zeros(len(types), dtype=np.uint8)
    planted[number[plan.roots]] = 1 + np.repeat(np.arange(len(_SHAPES)), [*plan.counts, *plan.distractors])
    return MotifGraph(
        types=types,
        marker=planted > 0,
        planted=planted,
        edges=number[np.concatenate([plan.frame, plan.gadgets], axis=1)],
        counts=plan.counts,
        distractors=plan.distractors,
    )


def generate_many(settings: MotifSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> MotifDataset:
    """Generate graphs ``0..num_graphs-1`` of a split; the result does not depend on the number of worker processes.

    >>> len(generate_many(MotifSettings(), "train", num_graphs=3, seed=0))
    3
    """
    make = partial(generate, settings, split, seed=seed)
    return generated.pack(MotifDataset, make, num_graphs, task="motifs", chunk=_CHUNK, workers=workers)


@lru_cache(maxsize=16)
def cached_census(settings: MotifSettings, split: str, num_graphs: int, seed: int) -> MotifDataset:
    """Generate a split once per process: 4,000 graphs take about a second and 3 MB."""
    return generate_many(settings, split, num_graphs, seed)
