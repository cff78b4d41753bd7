"""What a census graph looks like, and which part of it each split changes."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.suite.motifs.data.shapes import DISTRACTORS, MOTIFS

# A split's place is its random stream, so "train", "validation" and "iid" are three samples of one distribution.
# New splits go at the end: an insertion would change every graph after it.
SPLITS: tuple[str, ...] = (
    "train",
    "validation",
    "iid",
    "counts",
    "background",
    "mixture",
    "replicated",
    "jittered",
)

TEST_SPLITS: tuple[str, ...] = SPLITS[2:]


@dataclass(frozen=True)
class MotifSettings:
    """Ranges of the motif census; every range includes both ends. ``docs/motifs.md`` gives the reason for each value.

    Args:
        max_count: In-distribution count of each motif is uniform on ``0..max_count``.
        max_distractors: In-distribution count of each distractor family is uniform on ``0..max_distractors``.
        background: In-distribution background size, log-uniform.
        extra_edges: Background edges beyond a spanning tree, per background node.
        num_types: Node types, drawn uniformly; they say nothing about motifs.
        ood_counts: Count of each motif in split ``counts``.
        ood_background: Background size in split ``background``.
        copies: How many copies splits ``replicated`` and ``jittered`` make of an ``iid`` graph.
        rewired: Degree-preserving swaps a jittered copy gets, per edge outside the gadgets.
        retyped: Share of a jittered copy's nodes whose type is drawn again, uniformly.
    """

    max_count: int = 6
    max_distractors: int = 2
    background: tuple[int, int] = (16, 64)
    extra_edges: float = 0.5
    num_types: int = 4
    ood_counts: tuple[int, int] = (7, 18)
    ood_background: tuple[int, int] = (128, 256)
    copies: tuple[int, int] = (2, 3)
    rewired: float = 0.3
    retyped: float = 0.2

    def __post_init__(self) -> None:
        for name in ("background", "ood_counts", "ood_background", "copies"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"motifs: {name}=({low}, {high}) is empty. Give the smaller end first.")
        if self.max_count < 2:
            raise ValueError(
                f"motifs: max_count={self.max_count} leaves no room between rare and common motifs, which split "
                "'mixture' needs. Use at least 2."
            )
        if self.max_distractors < 0:
            raise ValueError(f"motifs: max_distractors={self.max_distractors} is negative. Use 0 for no distractors.")
        if not 1 <= self.num_types <= 256:
            raise ValueError(f"motifs: num_types={self.num_types}, but a type is one byte. Use 1 to 256.")
        self._check_background()
        self._check_splits()

    def _check_background(self) -> None:
        # A background no larger than a motif could itself be the other side of a root's bridge and be counted.
        largest = max(shape.num_nodes for shape in MOTIFS + DISTRACTORS)
        smallest = self.background[0]
        if smallest <= largest:
            raise ValueError(
                f"motifs: a background of {smallest} nodes could itself be mistaken for a gadget of {largest}. "
                f"Use at least {largest + 1} nodes."
            )
        if self.extra_edges < 0:
            raise ValueError(f"motifs: extra_edges={self.extra_edges} is negative. Use 0 for a tree.")
        # Extra edges are drawn by rejection, which stays quick while half of the pairs are free.
        edges = smallest - 1 + round(self.extra_edges * smallest)
        room = smallest * (smallest - 1) // 4
        if edges > room:
            raise ValueError(
                f"motifs: extra_edges={self.extra_edges} asks for {edges} edges among {smallest} background nodes, "
                f"above half of all pairs ({room}). Lower extra_edges or raise the smallest background."
            )

    def _check_splits(self) -> None:
        if self.ood_counts[0] <= self.max_count:
            raise ValueError(
                f"motifs: ood_counts starts at {self.ood_counts[0]}, inside the training range 0..{self.max_count}. "
                f"Start it at {self.max_count + 1} or above."
            )
        if self.ood_background[0] <= self.background[1]:
            raise ValueError(
                f"motifs: ood_background starts at {self.ood_background[0]}, inside the training range "
                f"{self.background}. Start it at {self.background[1] + 1} or above."
            )
        if self.copies[0] < 2:
            raise ValueError(f"motifs: copies={self.copies} includes {self.copies[0]}, which replicates nothing.")
        for name in ("rewired", "retyped"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ValueError(f"motifs: {name}={share} is not a share. Use a number from 0 to 1.")
