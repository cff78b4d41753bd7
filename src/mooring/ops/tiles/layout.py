"""How a ragged batch becomes a few tiles: the one place that looks at graph sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from mooring.ops.plan import Plan
from mooring.ops.state import untransformed
from mooring.ops.tiles.tile import Block, Run, Tile

# Nodes in one tile. A tile of scores (nodes x slots x heads) should stay in a core's cache between the passes over it.
TILE = 8192
# A graph this large is worth a tile of its own, or calls of its own in a run; smaller ones share blocks with graphs of
# about their size.
LARGE = 256
# One extra tile costs about as much as this many small graphs in a run.
SMALL_PER_TILE = 6
# One extra tile costs about as much as this many places of padding.
TILE_COST = 2048
# Graphs that share a block differ in size by at most this factor, whatever a tile costs.
MOST_PADDING = 4


@dataclass(frozen=True, eq=False)
class Layout:
    """The nodes that take part, cut into tiles; graphs without nodes cost nothing.

    Args:
        num_nodes: rows of the tensors, nodes that do not take part included.
        ids, sizes: the graphs that have nodes, ascending, and how many nodes each has.
        order: the nodes that take part, sorted by graph; None where these are all nodes as they lie.
        device: where the nodes are.
    """

    num_nodes: int
    ids: list[int]
    sizes: list[int]
    order: Tensor | None
    device: torch.device

    @classmethod
    def of(cls, plan: Plan, where: Tensor | None = None) -> Layout:
        """The layout of a plan's nodes, or of those that ``where`` picks. Without it the plan keeps it."""
        if where is None:
            return plan.keep("tiles", lambda plan: cls._make(plan, plan.order))
        if plan.order is None:
            return cls._make(plan, where.nonzero().squeeze(1))
        return cls._make(plan, plan.order[where.index_select(0, plan.order)])

    @classmethod
    def _make(cls, plan: Plan, order: Tensor | None) -> Layout:
        if plan.batch is None:
            size = plan.num_nodes if order is None else order.numel()
            return cls(plan.num_nodes, [0] if size else [], [size] if size else [], order, plan.device)
        index = plan.batch if order is None else plan.batch.index_select(0, order)
        ids, sizes = index.unique_consecutive(return_counts=True)
        return cls(plan.num_nodes, ids.tolist(), sizes.tolist(), order, plan.device)

    @cached_property
    def tiles(self) -> list[Tile]:
        """Tiles that cover every node that takes part exactly once.

        One large graph becomes slices (no copy). Equal consecutive graphs become one view (no copy). Where many graphs
        are large they stand one after the other as they are, small ones among them (no copy, no padding). Otherwise
        graphs are sorted by size and share blocks whose padding is bounded. So a skewed batch is never padded to its
        largest graph, and the number of tiles grows with the number of nodes, not of graphs.
        """
        if len(self.ids) == 1:
            return untransformed(lambda: list(self._cut(0, 0)))
        return untransformed(lambda: list(self._runs() if _worth_a_loop(self.sizes) else self._blocks()))

    def blank_like(self, tensor: Tensor, skipped: Tensor | None = None) -> Tensor:
        """Room for one row per node, left unset because tiles cover every row.

        Nodes that do not take part have the rows of ``skipped``, or zero.
        """
        if self.order is None or self.order.numel() == self.num_nodes:
            return torch.empty_like(tensor)
        return torch.zeros_like(tensor) if skipped is None else torch.empty_like(tensor).copy_(skipped)

    def _runs(self) -> Iterator[Tile]:
        """Consecutive graphs with up to ``TILE`` nodes together; larger graphs are cut."""
        sizes, ends, begin = self.sizes, list(accumulate(self.sizes)), 0
        while begin < len(sizes):
            start = ends[begin] - sizes[begin]
            if sizes[begin] > TILE:
                yield from self._cut(begin, start)
                begin += 1
                continue
            stop = bisect_right(ends, start + TILE)  # the first graph that does not fit
            nodes = self._nodes(start, ends[stop - 1])
            yield Run(graphs=self._graphs(range(begin, stop)), nodes=nodes, sizes=tuple(sizes[begin:stop]))
            begin = stop

    def _blocks(self) -> Iterator[Tile]:
        """Graphs of about one size side by side; large ones by themselves, unless all are alike."""
        sizes = self.sizes
        starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
        for bucket in _buckets(sizes):
            lengths = [sizes[place] for place in bucket]
            smallest, largest = min(lengths), max(lengths)
            alike = smallest == largest and bucket[-1] - bucket[0] + 1 == len(bucket)
            if largest > TILE or (largest >= LARGE and not alike):
                for place in bucket:
                    yield from self._cut(place, starts[place])
                continue
            step = max(TILE // largest, 1)
            for at in range(0, len(bucket), step):
                places = bucket[at : at + step]
                if smallest == largest and places[-1] - places[0] + 1 == len(places):
                    nodes = self._nodes(starts[places[0]], starts[places[-1]] + largest)
                    yield Block(graphs=self._graphs(places), nodes=nodes, length=largest)
                else:
                    yield self._pad(places, [starts[place] for place in places], largest)

    def _cut(self, place: int, start: int) -> Iterator[Tile]:
        """One graph as tiles of about ``TILE`` nodes, all of one size."""
        size, graph = self.sizes[place], self.ids[place]
        parts = max(round(size / TILE), 1)
        bounds = [start + size * part // parts for part in range(parts + 1)]
        for part, (begin, end) in enumerate(pairwise(bounds)):
            yield Block(
                graphs=slice(graph, graph + 1),
                nodes=self._nodes(begin, end),
                first=part == 0,
                last=part == parts - 1,
                length=end - begin,
            )

    def _pad(self, places: Sequence[int], starts: list[int], length: int) -> Tile:
        """Graphs of about one size side by side, short ones padded by repeating their last node."""
        position = torch.arange(length, device=self.device)
        lengths = [self.sizes[place] for place in places]
        sizes = torch.tensor(lengths, device=self.device).unsqueeze(1)
        first = torch.tensor(starts, device=self.device).unsqueeze(1)
        nodes = (first + torch.minimum(position, sizes - 1)).flatten()
        return Block(
            graphs=self._graphs(places),
            nodes=nodes if self.order is None else self.order[nodes],
            length=length,
            padding=position >= sizes if min(lengths) < length else None,
        )

    def _graphs(self, places: Sequence[int]) -> Tensor | slice:
        """Ids of the graphs in these places, a slice where they lie in a row."""
        ids = [self.ids[place] for place in places]
        if ids[-1] - ids[0] == len(ids) - 1:  # places and ids ascend
            return slice(ids[0], ids[-1] + 1)
        return torch.tensor(ids, device=self.device)

    def _nodes(self, start: int, stop: int) -> Tensor | slice:
        """Nodes by their places in the sorted batch."""
        return slice(start, stop) if self.order is None else self.order[start:stop]


def _worth_a_loop(sizes: list[int]) -> bool:
    """Whether graphs differ in size and there are enough large ones to offset the small ones."""
    large = len([size for size in sizes if size >= LARGE])
    return len(set(sizes)) > 1 and len(sizes) - large <= SMALL_PER_TILE * large


def _buckets(sizes: list[int]) -> Iterator[list[int]]:
    """Places by size, ascending, in the groups that cost least; places ascend within one size.

    A group is padded to its largest graph, and one more group costs ``TILE_COST`` places. There are few sizes below
    ``LARGE``, so the best split is found by going through all of them; larger ones are not padded.
    """
    places: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        places.setdefault(size, []).append(place)
    distinct = sorted(places)
    # best[i]: the least cost of the first i sizes, and where their last group begins.
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end, size in enumerate(distinct, 1):
        count, cheapest = 0, (float("inf"), 0)
        for begin in range(end - 1, -1, -1):
            if begin < end - 1 and (size >= LARGE or size > MOST_PADDING * distinct[begin]):
                break
            count += len(places[distinct[begin]])
            cheapest = min(cheapest, (best[begin][0] + count * size + TILE_COST, begin))
        best.append(cheapest)
    groups, end = [], len(distinct)
    while end:
        begin = best[end][1]
        groups.append(sorted([place for size in distinct[begin:end] for place in places[size]]))
        end = begin
    yield from reversed(groups)
