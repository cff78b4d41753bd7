"""Partition of a ragged batch into tiles, by the sizes of its graphs."""

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

# Nodes in one tile. The scores of a tile (nodes x slots x heads) should stay in a core's cache between passes.
TILE = 8192
# A graph of at least this many nodes gets a separate tile, or separate calls in a run; smaller ones share blocks with
# graphs of similar size.
LARGE = 256
# One extra tile costs about as much as this many small graphs in a run.
SMALL_PER_TILE = 6
# One extra tile costs about as much as this many rows of padding.
TILE_COST = 2048
# Graphs that share a block differ in size by at most this factor, whatever a tile costs.
MOST_PADDING = 4


@dataclass(frozen=True, eq=False)
class Layout:
    """The active nodes of a batch, partitioned into tiles; empty graphs cost nothing.

    Active nodes are those that a write or read uses: not masked by ``where``, and with a weight above zero.

    Args:
        num_nodes: rows of the tensors, inactive nodes included.
        ids, sizes: ids, ascending, and sizes of the graphs that have active nodes.
        order: the active nodes sorted by graph; None if all nodes are active and sorted already.
        device: device of the nodes.
    """

    num_nodes: int
    ids: list[int]
    sizes: list[int]
    order: Tensor | None
    device: torch.device

    @classmethod
    def of(cls, plan: Plan, where: Tensor | None = None) -> Layout:
        """Return the layout of the nodes of a plan, or of those that ``where`` selects; the first is cached."""
        if where is None:
            return plan.get_or_make("tiles", lambda plan: cls._make(plan, plan.order))
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
        """Return tiles that cover every active node exactly once.

        A large graph becomes slices (no copy). Consecutive graphs of equal size become one view (no copy). If many
        graphs are large, consecutive graphs form a run (no copy, no padding). Otherwise graphs are sorted by size and
        share blocks with bounded padding. So a skewed batch is never padded to its largest graph, and the number of
        tiles grows with the number of nodes, not of graphs.
        """
        if len(self.ids) == 1:
            return untransformed(lambda: list(self._cut(0, 0)))
        return untransformed(lambda: list(self._runs() if _worth_a_loop(self.sizes) else self._blocks()))

    def blank_like(self, tensor: Tensor, skipped: Tensor | None = None) -> Tensor:
        """Return an uninitialised tensor with one row per node; tiles fill the rows of active nodes.

        Rows of inactive nodes are copied from ``skipped``, or zero.
        """
        if self.order is None or self.order.numel() == self.num_nodes:
            return torch.empty_like(tensor)
        return torch.zeros_like(tensor) if skipped is None else torch.empty_like(tensor).copy_(skipped)

    def _runs(self) -> Iterator[Tile]:
        """Yield runs of consecutive graphs with up to ``TILE`` nodes in total; larger graphs are cut."""
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
        """Yield blocks of graphs of similar size; large graphs are separate unless consecutive and equal in size."""
        sizes = self.sizes
        starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
        for bucket in _buckets(sizes):
            lengths = [sizes[position] for position in bucket]
            smallest, largest = min(lengths), max(lengths)
            one_view = smallest == largest and bucket[-1] - bucket[0] + 1 == len(bucket)
            if largest > TILE or (largest >= LARGE and not one_view):
                for position in bucket:
                    yield from self._cut(position, starts[position])
                continue
            step = max(TILE // largest, 1)
            for at in range(0, len(bucket), step):
                positions = bucket[at : at + step]
                if smallest == largest and positions[-1] - positions[0] + 1 == len(positions):
                    nodes = self._nodes(starts[positions[0]], starts[positions[-1]] + largest)
                    yield Block(graphs=self._graphs(positions), nodes=nodes, length=largest)
                else:
                    yield self._pad(positions, [starts[position] for position in positions], largest)

    def _cut(self, position: int, start: int) -> Iterator[Tile]:
        """Yield tiles of about ``TILE`` nodes, equal in size, of one graph."""
        size, graph = self.sizes[position], self.ids[position]
        count = max(round(size / TILE), 1)
        bounds = [start + size * number // count for number in range(count + 1)]
        for number, (begin, end) in enumerate(pairwise(bounds)):
            yield Block(
                graphs=slice(graph, graph + 1),
                nodes=self._nodes(begin, end),
                first=number == 0,
                last=number == count - 1,
                length=end - begin,
            )

    def _pad(self, positions: Sequence[int], starts: list[int], length: int) -> Tile:
        """Return a block of graphs, padded to ``length`` by repeating the last node of each graph."""
        offset = torch.arange(length, device=self.device)
        lengths = [self.sizes[position] for position in positions]
        sizes = torch.tensor(lengths, device=self.device).unsqueeze(1)
        first = torch.tensor(starts, device=self.device).unsqueeze(1)
        nodes = (first + torch.minimum(offset, sizes - 1)).flatten()
        return Block(
            graphs=self._graphs(positions),
            nodes=nodes if self.order is None else self.order[nodes],
            length=length,
            padding=offset >= sizes if min(lengths) < length else None,
        )

    def _graphs(self, positions: Sequence[int]) -> Tensor | slice:
        """Return the ids of the graphs at these positions of ``ids``; a slice if they are consecutive."""
        ids = [self.ids[position] for position in positions]
        if ids[-1] - ids[0] == len(ids) - 1:  # positions and ids ascend
            return slice(ids[0], ids[-1] + 1)
        return torch.tensor(ids, device=self.device)

    def _nodes(self, start: int, stop: int) -> Tensor | slice:
        """Return the nodes at these positions of the sorted batch."""
        return slice(start, stop) if self.order is None else self.order[start:stop]


def _worth_a_loop(sizes: list[int]) -> bool:
    """Return whether graphs differ in size and there are enough large ones to offset the small ones."""
    large = len([size for size in sizes if size >= LARGE])
    return len(set(sizes)) > 1 and len(sizes) - large <= SMALL_PER_TILE * large


def _buckets(sizes: list[int]) -> Iterator[list[int]]:
    """Yield the positions of graphs in groups of similar size, with the least total cost.

    A group is padded to its largest graph; each group costs another ``TILE_COST`` rows. The optimal split is found by
    dynamic programming over the distinct sizes, which are few below ``LARGE``; larger graphs are not padded.
    """
    positions: dict[int, list[int]] = {}
    for position, size in enumerate(sizes):
        positions.setdefault(size, []).append(position)
    distinct = sorted(positions)
    # best[i]: the least cost of the first i sizes, and the start of their last group.
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end, size in enumerate(distinct, 1):
        count, cheapest = 0, (float("inf"), 0)
        for begin in range(end - 1, -1, -1):
            if begin < end - 1 and (size >= LARGE or size > MOST_PADDING * distinct[begin]):
                break
            count += len(positions[distinct[begin]])
            cheapest = min(cheapest, (best[begin][0] + count * size + TILE_COST, begin))
        best.append(cheapest)
    groups, end = [], len(distinct)
    while end:
        begin = best[end][1]
        groups.append(sorted([position for size in distinct[begin:end] for position in positions[size]]))
        end = begin
    yield from reversed(groups)
