"""A reference 1-WL: dictionaries and sorted tuples, nothing shared with the anchored read it is compared to."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def refine(colors: Sequence[Hashable], edges: Sequence[tuple[int, int]]) -> list[int]:
    """One refinement: nodes keep one colour when colour and multiset of in-neighbour colours agree.

    Paper: thm:wlinjective.

    Args:
        colors: current colour of each node.
        edges: directed (from, to) pairs; list both directions of an undirected edge.

    Example:
        >>> refine([0, 0, 0], [(0, 1), (1, 0), (1, 2), (2, 1)])  # a path: both ends get one colour
        [0, 1, 0]
    """
    names: dict[Hashable, int] = {}
    plain = [names.setdefault(color, len(names)) for color in colors]
    heard: list[list[int]] = [[] for _ in colors]
    for source, target in edges:
        heard[target].append(plain[source])
    refined: dict[tuple[int, tuple[int, ...]], int] = {}
    return [
        refined.setdefault((own, tuple(sorted(others))), len(refined)) for own, others in zip(plain, heard, strict=True)
    ]


def same_partition(first: Sequence[Hashable], second: Sequence[Hashable]) -> bool:
    """Whether two colourings put the same nodes together, whatever they call the colours."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))
