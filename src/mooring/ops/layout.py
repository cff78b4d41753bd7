"""How a ragged batch becomes a few tiles: the one place that looks at graph sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from mooring.ops.tile import Block, Run, Tile

# Nodes in one tile. A tile of scores (nodes x slots x heads) should stay in a core's cache between the passes over it.
TILE = 8192
# A graph this large is worth a tile of its own, or calls of its own in a run; smaller ones share blocks with graphs of
# about their size.
LARGE = 256
# A tile more costs what about this many small graphs cost in a run.
SMALL_A_TILE = 6
# Graphs that share a block differ in size by at most this factor, which bounds the work spent on padding.
SLACK = 1.25


def blank_like(tensor: Tensor, index: Tensor | None, skipped: Tensor | None = None) -> Tensor:
    """Room for one row a node, left unset because tiles cover every row.

    Where some nodes are left out, those have the rows of ``skipped``, or zero.
    """
    if index is None or not bool((index < 0).any()):
        return torch.empty_like(tensor)
    return torch.zeros_like(tensor) if skipped is None else torch.empty_like(tensor).copy_(skipped)


def tiles(index: Tensor | None, num_nodes: int, num_graphs: int) -> Iterator[Tile]:
    """Cut the nodes into tiles that cover every node with ``index >= 0`` exactly once.

    One large graph becomes slices (no copy). Equal consecutive graphs become one view (no copy). Where many graphs are
    large they stand one after the other as they are, small ones among them (no copy, no padding). Otherwise graphs are
    sorted by size and share blocks whose padding is bounded by ``SLACK``. So a skewed batch is never padded to its
    largest graph, and the number of tiles grows with the number of nodes, not of graphs. Graphs without nodes cost
    nothing.
    """
    if num_nodes == 0:
        return
    if index is None or (num_graphs == 1 and int(index.min()) == 0):
        yield from _cut(0, 0, num_nodes, None)
        return
    order = None
    if not bool((index[1:] >= index[:-1]).all()) or int(index[0]) < 0:
        order = index.argsort(stable=True)
        order = order[int((index < 0).sum()) :]
        index = index.index_select(0, order)
    ids, counts = index.unique_consecutive(return_counts=True)
    batch = _Batch(ids.tolist(), counts.tolist(), ids, counts, order)
    yield from _runs(batch) if _worth_a_loop(batch.sizes) else _blocks(batch)


class _Batch(NamedTuple):
    """The graphs that have nodes, on the host and on the device; graphs without nodes cost nothing.

    Args:
        ids: graph ids, ascending.
        sizes: nodes of each.
        ids_tensor, sizes_tensor: the same as tensors.
        order: node ids sorted by graph; None where they are sorted already.
    """

    ids: list[int]
    sizes: list[int]
    ids_tensor: Tensor
    sizes_tensor: Tensor
    order: Tensor | None

    def graphs(self, begin: int, stop: int) -> Tensor | slice:
        """Ids of the graphs from place ``begin`` to ``stop``, a slice where there are no gaps between them."""
        first, last = self.ids[begin], self.ids[stop - 1]
        return slice(first, last + 1) if last - first == stop - begin - 1 else self.ids_tensor[begin:stop]

    def nodes(self, start: int, stop: int) -> Tensor | slice:
        """Nodes by their places in the sorted batch."""
        return slice(start, stop) if self.order is None else self.order[start:stop]


def _worth_a_loop(sizes: list[int]) -> bool:
    """Whether graphs differ in size and there are large ones enough to make up for the small."""
    large = sum(size >= LARGE for size in sizes)
    return len(set(sizes)) > 1 and len(sizes) - large <= SMALL_A_TILE * large


def _runs(batch: _Batch) -> Iterator[Tile]:
    """Consecutive graphs with up to ``TILE`` nodes together; larger graphs are cut."""
    sizes, ends, begin = batch.sizes, list(accumulate(batch.sizes)), 0
    while begin < len(sizes):
        start = ends[begin] - sizes[begin]
        if sizes[begin] > TILE:
            yield from _cut(batch.ids[begin], start, sizes[begin], batch.order)
            begin += 1
            continue
        stop = bisect_right(ends, start + TILE)  # the first graph that does not fit
        nodes = batch.nodes(start, ends[stop - 1])
        yield Run(graphs=batch.graphs(begin, stop), nodes=nodes, sizes=tuple(sizes[begin:stop]))
        begin = stop


def _blocks(batch: _Batch) -> Iterator[Tile]:
    """Graphs of about one size side by side; those of ``LARGE`` nodes and more by themselves, unless all are alike."""
    sizes = batch.sizes
    starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    for bucket in _buckets(sizes):
        smallest, largest = sizes[bucket[0]], sizes[bucket[-1]]
        alike = smallest == largest and bucket[-1] - bucket[0] + 1 == len(bucket)
        if largest > TILE or (largest >= LARGE and not alike):
            for place in bucket:
                yield from _cut(batch.ids[place], starts[place], sizes[place], batch.order)
            continue
        step = max(TILE // largest, 1)
        for at in range(0, len(bucket), step):
            places = bucket[at : at + step]
            if smallest == largest and places[-1] - places[0] + 1 == len(places):
                nodes = batch.nodes(starts[places[0]], starts[places[-1]] + largest)
                yield Block(graphs=batch.graphs(places[0], places[-1] + 1), nodes=nodes, length=largest)
            else:
                yield _pad(places, largest, starts, batch)


def _buckets(sizes: list[int]) -> Iterator[list[int]]:
    """Places by size, ascending, split where padding would exceed ``SLACK``; places ascend within one size."""
    bucket: list[int] = []
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        if bucket and sizes[place] > SLACK * sizes[bucket[0]] + 1:
            yield bucket
            bucket = []
        bucket.append(place)
    if bucket:
        yield bucket


def _cut(graph: int, start: int, size: int, order: Tensor | None) -> Iterator[Tile]:
    """One graph as tiles of about ``TILE`` nodes, all of one size."""
    parts = max(round(size / TILE), 1)
    bounds = [start + size * part // parts for part in range(parts + 1)]
    for part, (begin, end) in enumerate(pairwise(bounds)):
        yield Block(
            graphs=slice(graph, graph + 1),
            nodes=slice(begin, end) if order is None else order[begin:end],
            first=part == 0,
            last=part == parts - 1,
            length=end - begin,
        )


def _pad(places: list[int], length: int, starts: list[int], batch: _Batch) -> Tile:
    """Graphs of about one size side by side, short ones padded by repeating their last node."""
    device = batch.ids_tensor.device
    position, chosen = torch.arange(length, device=device), torch.tensor(places, device=device)
    sizes = batch.sizes_tensor[chosen].unsqueeze(1)
    first = torch.tensor([starts[place] for place in places], device=device).unsqueeze(1)
    nodes = (first + torch.minimum(position, sizes - 1)).flatten()
    padding = position >= sizes
    return Block(
        graphs=batch.ids_tensor[chosen],
        nodes=nodes if batch.order is None else batch.order[nodes],
        length=length,
        padding=padding if bool(padding.any()) else None,
    )
