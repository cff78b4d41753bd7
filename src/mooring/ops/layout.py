"""How a ragged batch becomes a few tiles: the one place that looks at graph sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise

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
    largest graph, and the number of tiles grows with the number of nodes, not of graphs.
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
    counts = torch.bincount(index, minlength=num_graphs)
    sizes = counts.tolist()
    yield from _runs(sizes, order) if _worth_a_loop(sizes) else _blocks(sizes, counts, order)


def _worth_a_loop(sizes: list[int]) -> bool:
    """Whether graphs differ in size and there are large ones enough to make up for the small."""
    small = sum(0 < size < LARGE for size in sizes)
    large = sum(size >= LARGE for size in sizes)
    return len({size for size in sizes if size}) > 1 and small <= SMALL_A_TILE * large


def _runs(sizes: list[int], order: Tensor | None) -> Iterator[Tile]:
    """Consecutive graphs with up to ``TILE`` nodes together; larger graphs are cut."""
    ends, begin = list(accumulate(sizes)), 0
    while begin < len(sizes):
        start = ends[begin] - sizes[begin]
        if sizes[begin] > TILE:
            yield from _cut(begin, start, sizes[begin], order)
            begin += 1
            continue
        stop = bisect_right(ends, start + TILE)  # the first graph that does not fit
        nodes = _in_order(start, ends[stop - 1], order)
        yield Run(graphs=slice(begin, stop), nodes=nodes, sizes=tuple(sizes[begin:stop]))
        begin = stop


def _blocks(sizes: list[int], counts: Tensor, order: Tensor | None) -> Iterator[Tile]:
    """Graphs of about one size side by side; those of ``LARGE`` nodes and more by themselves, unless all are alike."""
    starts = (counts.cumsum(0) - counts).tolist()
    for bucket in _buckets(sizes):
        smallest, largest = sizes[bucket[0]], sizes[bucket[-1]]
        alike = smallest == largest and bucket[-1] - bucket[0] + 1 == len(bucket)
        if largest > TILE or (largest >= LARGE and not alike):
            for graph in bucket:
                yield from _cut(graph, starts[graph], sizes[graph], order)
            continue
        step = max(TILE // largest, 1)
        for at in range(0, len(bucket), step):
            graphs = bucket[at : at + step]
            if smallest == largest and graphs[-1] - graphs[0] + 1 == len(graphs):
                nodes = _in_order(starts[graphs[0]], starts[graphs[-1]] + largest, order)
                yield Block(graphs=slice(graphs[0], graphs[-1] + 1), nodes=nodes, length=largest)
            else:
                yield _pad(torch.tensor(graphs, device=counts.device), largest, counts, starts, order)


def _buckets(sizes: list[int]) -> Iterator[list[int]]:
    """Graph ids by size, ascending, split where padding would exceed ``SLACK``; ids ascend within one size."""
    ranked = sorted((graph for graph, size in enumerate(sizes) if size), key=sizes.__getitem__)
    bucket: list[int] = []
    for graph in ranked:
        if bucket and sizes[graph] > SLACK * sizes[bucket[0]] + 1:
            yield bucket
            bucket = []
        bucket.append(graph)
    if bucket:
        yield bucket


def _cut(graph: int, start: int, size: int, order: Tensor | None) -> Iterator[Tile]:
    """One graph as tiles of about ``TILE`` nodes, all of one size."""
    parts = max(round(size / TILE), 1)
    bounds = [start + size * part // parts for part in range(parts + 1)]
    for part, (begin, end) in enumerate(pairwise(bounds)):
        yield Block(
            graphs=slice(graph, graph + 1),
            nodes=_in_order(begin, end, order),
            first=part == 0,
            last=part == parts - 1,
            length=end - begin,
        )


def _pad(graphs: Tensor, length: int, counts: Tensor, starts: list[int], order: Tensor | None) -> Tile:
    """Graphs of about one size side by side, short ones padded by repeating their last node."""
    position = torch.arange(length, device=graphs.device)
    sizes = counts[graphs].unsqueeze(1)
    first = torch.tensor([starts[graph] for graph in graphs.tolist()], device=graphs.device).unsqueeze(1)
    nodes = (first + torch.minimum(position, sizes - 1)).flatten()
    padding = position >= sizes
    return Block(
        graphs=graphs,
        nodes=nodes if order is None else order[nodes],
        length=length,
        padding=padding if bool(padding.any()) else None,
    )


def _in_order(start: int, stop: int, order: Tensor | None) -> Tensor | slice:
    """Nodes by their places in a sorted batch."""
    return slice(start, stop) if order is None else order[start:stop]
