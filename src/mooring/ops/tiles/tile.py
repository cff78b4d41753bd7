"""A tile: a chunk of the batch, with per-graph reductions and products.

The rows of a tile are *places*: one per node, and one per entry of padding. Tensors of a tile are
``[parts, places, ...]``; tensors of its graphs are ``[parts, graphs, ...]``. For parts and rows see
:mod:`mooring.ops.plain`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mooring.ops.state import untransformed


@dataclass(frozen=True, kw_only=True)
class Tile(ABC):
    """A chunk of the batch.

    Args:
        graphs: ids of the graphs, or a slice if they are consecutive.
        nodes: id of the node in each place, or a slice if they are consecutive.
        first, last: whether this is the first or last tile of its graphs (only large graphs have several tiles).
    """

    graphs: Tensor | slice
    nodes: Tensor | slice
    first: bool = True
    last: bool = True

    def take(self, tensor: Tensor) -> Tensor:
        """Gather ``[nodes, ...]`` to ``[places, ...]``; a view if the nodes are consecutive."""
        return tensor[self.nodes] if isinstance(self.nodes, slice) else tensor.index_select(0, self.nodes)

    def put(self, block: Tensor, out: Tensor) -> None:
        """Scatter ``[places, ...]`` to the rows of ``out`` ``[nodes, ...]``."""
        if isinstance(self.nodes, slice):
            out[self.nodes] = block
        else:
            out.index_copy_(0, self.nodes, block)

    def window(self, out: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Return a view ``[1, places, dim]`` of the tile's rows of ``out`` ``[nodes, 1, dim]``, to write products to.

        None if the nodes are not consecutive, or ``out`` has several parts or another dtype; then use :meth:`put`.
        """
        if not isinstance(self.nodes, slice) or out.size(1) != 1 or out.dtype != dtype:
            return None
        return out[self.nodes].transpose(0, 1)

    def take_graphs(self, tensor: Tensor) -> Tensor:
        """Gather the rows of the tile's graphs from ``[graphs, ...]``; a view if the graphs are consecutive."""
        # index_select, here and below, is several times faster on a CPU than advanced indexing. Along the first axis,
        # because along another it first copies a tensor that is not contiguous.
        return tensor[self.graphs] if isinstance(self.graphs, slice) else tensor.index_select(0, self.graphs)

    def put_graphs(self, block: Tensor, out: Tensor) -> None:
        """Scatter ``[graphs of the tile, ...]`` to their rows of ``out`` ``[graphs, ...]``."""
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

    def hide_padding_(self, block: Tensor, value: float) -> Tensor:
        """Overwrite the padding of ``block`` with ``value``."""
        return block

    @abstractmethod
    def amax(self, block: Tensor) -> Tensor:
        """Return the maximum over each graph: ``[parts, places, rows]`` -> ``[parts, graphs, rows]``."""

    @abstractmethod
    def sum(self, block: Tensor) -> Tensor:
        """Return the sum over each graph: ``[parts, places, rows]`` -> ``[parts, graphs, rows]``."""

    @abstractmethod
    def subtract_(self, block: Tensor, graph_rows: Tensor) -> Tensor:
        """Subtract ``[parts, graphs, rows]`` from ``[parts, places, rows]`` in place, by the graph of each place."""

    @abstractmethod
    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return ``weights.mT @ values`` of each graph, ``[parts, graphs, rows, dim]``."""

    def spread(self, weights: Tensor, tables: Tensor, plus: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        """Return ``plus + weights @ tables`` of each graph, ``[parts, places, dim]``.

        Writing into ``out`` avoids two extra passes over large outputs.

        Args:
            weights, tables: ``[parts, places, rows]`` and ``[parts, graphs, rows, dim]``.
        """
        if out is None:
            out = weights.new_empty(*weights.shape[:2], tables.size(-1))
        if plus is not None and plus is not out:
            out.copy_(plus)
        self._multiply(weights, tables, out, add=plus is not None)
        return out

    @abstractmethod
    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        """Write ``weights @ tables`` of each graph to ``out``, or add it."""


@dataclass(frozen=True, kw_only=True)
class Block(Tile):
    """A tile of graphs of similar size, padded to ``[graphs, length]``; or a section of one large graph.

    Args:
        length: number of places of each graph.
        padding: boolean mask ``[graphs, length]`` of the padding, which repeats a node; None without padding.
    """

    length: int
    padding: Tensor | None = None

    def put(self, block: Tensor, out: Tensor) -> None:
        if self.padding is None:
            super().put(block, out)
        else:
            assert isinstance(self.nodes, Tensor)
            out.index_copy_(0, self.nodes.index_select(0, self._real_places), block.index_select(0, self._real_places))

    def hide_padding_(self, block: Tensor, value: float) -> Tensor:
        return block if self.padding is None else block.masked_fill_(self.padding.flatten().unsqueeze(-1), value)

    def amax(self, block: Tensor) -> Tensor:
        return self._by_graph(block).amax(dim=2)

    def sum(self, block: Tensor) -> Tensor:
        return self._by_graph(block).sum(dim=2)

    def subtract_(self, block: Tensor, graph_rows: Tensor) -> Tensor:
        self._by_graph(block).sub_(graph_rows.unsqueeze(2))
        return block

    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        return self._by_graph(weights).transpose(2, 3) @ self._by_graph(values)

    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        left, right = self._by_graph(weights).flatten(0, 1), tables.flatten(0, 1)
        _product(left, right, out.view(left.size(0), self.length, tables.size(-1)), add=add)

    def _by_graph(self, block: Tensor) -> Tensor:
        """View ``[parts, places, ...]`` as ``[parts, graphs, length, ...]``."""
        return block.unflatten(1, (block.size(1) // self.length, self.length))

    @cached_property
    def _real_places(self) -> Tensor:
        """Return the places that are not padding."""
        padding = self.padding
        assert padding is not None
        return untransformed(lambda: (~padding).flatten().nonzero().squeeze(1))


@dataclass(frozen=True, kw_only=True)
class Run(Tile):
    """A tile of consecutive graphs of any sizes, without padding.

    Reductions and products of each graph are a loop over graphs.

    Args:
        sizes: number of nodes of each graph, at least one.
    """

    sizes: tuple[int, ...]

    def amax(self, block: Tensor) -> Tensor:
        out = block.new_empty(block.size(0), len(self.sizes), block.size(2))
        for rows, largest in zip(self._split(block), out.unbind(1), strict=True):
            torch.amax(rows, 1, out=largest)
        return out

    def sum(self, block: Tensor) -> Tensor:
        out = block.new_empty(block.size(0), len(self.sizes), block.size(2))
        for rows, total in zip(self._split(block), out.unbind(1), strict=True):
            torch.sum(rows, 1, out=total)
        return out

    def subtract_(self, block: Tensor, graph_rows: Tensor) -> Tensor:
        for rows, offset in zip(self._split(block), graph_rows.unsqueeze(2).unbind(1), strict=True):
            rows.sub_(offset)
        return block

    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        out = weights.new_empty(weights.size(0), len(self.sizes), weights.size(2), values.size(2))
        for left, right, total in zip(self._split(weights), self._split(values), out.unbind(1), strict=True):
            torch.bmm(left.mT, right, out=total)
        return out

    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        for rows, table, product in zip(self._split(weights), tables.unbind(1), self._split(out), strict=True):
            _product(rows, table, product, add=add)

    def _split(self, block: Tensor) -> tuple[Tensor, ...]:
        """Split ``[parts, places, ...]`` by graph."""
        return block.split(self.sizes, 1)


def _product(left: Tensor, right: Tensor, out: Tensor, *, add: bool) -> None:
    if add:
        out.baddbmm_(left, right)
    else:
        torch.bmm(left, right, out=out)
