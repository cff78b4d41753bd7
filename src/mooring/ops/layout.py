"""How a ragged batch becomes a few dense tiles: the one place that looks at graph sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Nodes in one tile. A tile of scores (nodes x slots x heads) should stay in a core's cache between the passes over it.
TILE = 8192
# A graph this large is cut into tiles of its own; smaller ones share tiles with graphs of about their size.
LARGE = 256
# Graphs that share a tile differ in size by at most this factor, which bounds the work spent on padding.
SLACK = 1.25


@dataclass(frozen=True)
class Tile:
    """Some nodes as a dense ``[graphs, length]`` block.

    Args:
        graphs: ids of the graphs, or a slice of consecutive ones.
        length: nodes per graph, padding included.
        nodes: ids of the nodes in flat order, padding pointing at any node; or a slice when they lie in a row.
        padding: ``True`` where the block holds no node; None where there is no padding.
        first, last: whether this is the first or last part of its graphs (only large graphs have several parts).
    """

    graphs: Tensor | slice
    length: int
    nodes: Tensor | slice
    padding: Tensor | None = None
    first: bool = True
    last: bool = True

    def take(self, tensor: Tensor) -> Tensor:
        """``[nodes, ...]`` -> ``[graphs, length, ...]``, a view where the nodes lie in a row."""
        flat = tensor[self.nodes] if isinstance(self.nodes, slice) else tensor.index_select(0, self.nodes)
        return flat.unflatten(0, (-1, self.length))

    def of_graphs(self, tensor: Tensor) -> Tensor:
        """``[graphs, ...]`` -> the tile's graphs of it, a view where they lie in a row."""
        # index_select, here and below: advanced indexing is several times slower on a CPU. And along the first axis:
        # along another it copies all of a tensor that is not contiguous.
        return tensor[self.graphs] if isinstance(self.graphs, slice) else tensor.index_select(0, self.graphs)

    def put_graphs(self, block: Tensor, out: Tensor) -> None:
        """``[graphs of the tile, ...]`` -> their rows of ``out`` ``[graphs, ...]``."""
        if isinstance(self.graphs, slice):
            out[self.graphs] = block
        else:
            out.index_copy_(0, self.graphs, block)

    def add_graphs(self, block: Tensor, out: Tensor) -> None:
        """Add ``[graphs of the tile, ...]`` to their rows of ``out`` ``[graphs, ...]``."""
        if isinstance(self.graphs, slice):
            out[self.graphs] += block
        else:
            out.index_add_(0, self.graphs, block)

    def window(self, out: Tensor, dtype: torch.dtype) -> Tensor | None:
        """The tile's rows of ``out`` ``[nodes, 1, dim]`` as ``[graphs, length, dim]`` to write a product into.

        None where they do not lie in a row, have several parts or another dtype: then write elsewhere and ``put``.
        """
        if not isinstance(self.nodes, slice) or out.size(1) != 1 or out.dtype != dtype:
            return None
        return out[self.nodes].squeeze(1).unflatten(0, (-1, self.length))

    def put(self, block: Tensor, out: Tensor) -> None:
        """``[graphs, length, ...]`` -> the rows of ``out`` ``[nodes, ...]``, dropping the padding."""
        flat = block.flatten(0, 1)
        if isinstance(self.nodes, slice):
            out[self.nodes] = flat
        elif self.padding is None:
            out.index_copy_(0, self.nodes, flat)
        else:
            out.index_copy_(0, self.nodes.index_select(0, self._kept), flat.index_select(0, self._kept))

    @cached_property
    def _kept(self) -> Tensor:
        """Places in the flat block that are not padding."""
        assert self.padding is not None
        return (~self.padding).flatten().nonzero().squeeze(1)


def blank_like(tensor: Tensor, index: Tensor | None, skipped: Tensor | None = None) -> Tensor:
    """Room for one row a node, left unset because tiles cover every row.

    Where some nodes are left out, those have the rows of ``skipped``, or zero.
    """
    if index is None or not bool((index < 0).any()):
        return torch.empty_like(tensor)
    return torch.zeros_like(tensor) if skipped is None else torch.empty_like(tensor).copy_(skipped)


def tiles(index: Tensor | None, num_nodes: int, num_graphs: int) -> Iterator[Tile]:
    """Cut the nodes into dense tiles that cover every node with ``index >= 0`` exactly once.

    One large graph becomes slices (no copy). Equal consecutive graphs become one view (no copy). Others are sorted
    by size and share tiles whose padding is bounded by ``SLACK``: a skewed batch is never padded to its largest
    graph, and the number of tiles grows with the number of nodes, not of graphs.
    """
    if num_nodes == 0:
        return
    if index is None or (num_graphs == 1 and int(index.min()) == 0):
        yield from _cut(slice(0, 1), 0, num_nodes, None)
        return
    order = None
    if not bool((index[1:] >= index[:-1]).all()) or int(index[0]) < 0:
        order = index.argsort(stable=True)
        order = order[int((index < 0).sum()) :]
        index = index.index_select(0, order)
    counts = torch.bincount(index, minlength=num_graphs)
    starts = (counts.cumsum(0) - counts).tolist()
    sizes = counts.tolist()
    for bucket in _buckets(sizes):
        smallest, largest = sizes[bucket[0]], sizes[bucket[-1]]
        if largest >= LARGE:
            for graph in bucket:
                yield from _cut(slice(graph, graph + 1), starts[graph], sizes[graph], order)
            continue
        step = max(TILE // largest, 1)
        for at in range(0, len(bucket), step):
            graphs = bucket[at : at + step]
            in_a_row = smallest == largest and graphs[-1] - graphs[0] + 1 == len(graphs)
            if in_a_row:
                nodes: Tensor | slice = slice(starts[graphs[0]], starts[graphs[-1]] + largest)
                if order is not None:
                    nodes = order[nodes]
                yield Tile(slice(graphs[0], graphs[-1] + 1), largest, nodes)
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


def _cut(graph: slice, start: int, size: int, order: Tensor | None) -> Iterator[Tile]:
    """One graph as a run of tiles; the last two are evened out so that no tile is a sliver."""
    parts = max(round(size / TILE), 1)
    bounds = [start + size * part // parts for part in range(parts + 1)]
    for part in range(parts):
        nodes: Tensor | slice = slice(bounds[part], bounds[part + 1])
        if order is not None:
            nodes = order[nodes]
        length = bounds[part + 1] - bounds[part]
        yield Tile(graph, length, nodes, first=part == 0, last=part == parts - 1)


def _pad(graphs: Tensor, length: int, counts: Tensor, starts: list[int], order: Tensor | None) -> Tile:
    """Graphs of about one size side by side, short ones padded by repeating their last node."""
    position = torch.arange(length, device=graphs.device)
    sizes = counts[graphs].unsqueeze(1)
    first = torch.tensor([starts[graph] for graph in graphs.tolist()], device=graphs.device).unsqueeze(1)
    nodes = (first + torch.minimum(position, sizes - 1)).flatten()
    if order is not None:
        nodes = order[nodes]
    padding = position >= sizes
    return Tile(graphs, length, nodes, padding if bool(padding.any()) else None)
