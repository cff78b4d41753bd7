"""The rooted gadgets of the census: six motifs that count and six distractors that do not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A small connected graph whose node 0 is the root, hung on the rest of a graph by one edge at that root.

    Args:
        name: What tables and targets call it.
        num_nodes: How many nodes it has, root included.
        edges: Undirected edges, each once.
    """

    name: str
    num_nodes: int
    edges: tuple[tuple[int, int], ...]


# app:motifs fixes this order of the target vector. Sizes are the smallest that keep the six apart.
MOTIFS: tuple[Shape, ...] = (
    Shape("triangle", 3, ((0, 1), (0, 2), (1, 2))),
    Shape("square", 4, ((0, 1), (1, 2), (2, 3), (3, 0))),
    Shape("star", 5, ((0, 1), (0, 2), (0, 3), (0, 4))),
    Shape("path", 4, ((0, 1), (1, 2), (2, 3))),
    Shape("clique", 4, ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))),
    Shape("diamond", 4, ((0, 1), (0, 2), (0, 3), (1, 2), (2, 3))),
)

# Each is the near miss of the motif in the same place: one leaf more or fewer, a longer cycle, a wrong root.
# Were they unlike the motifs, counting markers would pass for counting motifs.
DISTRACTORS: tuple[Shape, ...] = (
    Shape("paw", 4, ((0, 1), (0, 2), (1, 2), (2, 3))),
    Shape("pentagon", 5, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))),
    Shape("claw", 4, ((0, 1), (0, 2), (0, 3))),
    Shape("long_path", 5, ((0, 1), (1, 2), (2, 3), (3, 4))),
    Shape("clique5", 5, tuple((a, b) for a in range(5) for b in range(a + 1, 5))),
    Shape("tilted_diamond", 4, ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))),
)

MOTIF_NAMES: tuple[str, ...] = tuple(shape.name for shape in MOTIFS)
