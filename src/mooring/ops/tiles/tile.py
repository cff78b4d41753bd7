"""Some nodes of a batch at once, and the few things that must know which graph each of them is in.

Nodes of a tile stand one after the other in *places*; every block here is ``[parts, places, ...]`` and everything of
graphs ``[parts, graphs, ...]``.
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
    """Some nodes.

    Args:
        graphs: ids of the graphs, or a slice of consecutive ones.
        nodes: ids of the nodes in their places; or a slice when they lie in a row.
        first, last: whether this is the first or last part of its graphs (only large graphs have several parts).
    """

    graphs: Tensor | slice
    nodes: Tensor | slice
    first: bool = True
    last: bool = True

    def take(self, tensor: Tensor) -> Tensor:
        """``[nodes, ...]`` -> ``[places, ...]``, a view where the nodes lie in a row."""
        return tensor[self.nodes] if isinstance(self.nodes, slice) else tensor.index_select(0, self.nodes)

    def put(self, block: Tensor, out: Tensor) -> None:
        """``[places, ...]`` -> the rows of ``out`` ``[nodes, ...]``."""
        if isinstance(self.nodes, slice):
            out[self.nodes] = block
        else:
            out.index_copy_(0, self.nodes, block)

    def window(self, out: Tensor, dtype: torch.dtype) -> Tensor | None:
        """The tile's rows of ``out`` ``[nodes, 1, dim]`` as ``[1, places, dim]`` to write a product into.

        None where they do not lie in a row, have several parts or another dtype: then write elsewhere and ``put``.
        """
        if not isinstance(self.nodes, slice) or out.size(1) != 1 or out.dtype != dtype:
            return None
        return out[self.nodes].transpose(0, 1)

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

    def hide_padding_(self, block: Tensor, value: float) -> Tensor:
        """Overwrite the places that hold no node."""
        return block

    @abstractmethod
    def amax(self, block: Tensor) -> Tensor:
        """``[parts, places, rows]`` -> the largest of each graph ``[parts, graphs, rows]``."""

    @abstractmethod
    def sum(self, block: Tensor) -> Tensor:
        """``[parts, places, rows]`` -> the sum over each graph ``[parts, graphs, rows]``."""

    @abstractmethod
    def subtract_(self, block: Tensor, of_graphs: Tensor) -> Tensor:
        """``[parts, places, rows]`` less ``[parts, graphs, rows]`` of each place's graph, in place."""

    @abstractmethod
    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        """A sum over places: ``[parts, places, rows]``, ``[parts, places, dim]`` -> ``[parts, graphs, rows, dim]``."""

    def spread(self, weights: Tensor, tables: Tensor, plus: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        """``plus + weights @ tables``: ``[parts, places, rows]``, ``[parts, graphs, rows, dim]`` ->
        ``[parts, places, dim]``.

        With ``out`` the product is formed there: large outputs are then written once, and not three times: as zeros,
        as a product and as a copy.
        """
        if out is None:
            out = weights.new_empty(*weights.shape[:2], tables.size(-1))
        if plus is not None and plus is not out:
            out.copy_(plus)
        self._multiply(weights, tables, out, add=plus is not None)
        return out

    @abstractmethod
    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        """``weights @ tables`` of each graph, written or added to ``out``."""


@dataclass(frozen=True, kw_only=True)
class Block(Tile):
    """Graphs of about one size side by side as ``[graphs, length]``, or a part of one graph.

    Args:
        length: places of each graph.
        padding: ``[graphs, length]``, ``True`` where a place holds no node (it repeats one); None without padding.
    """

    length: int
    padding: Tensor | None = None

    def put(self, block: Tensor, out: Tensor) -> None:
        if self.padding is None:
            super().put(block, out)
        else:
            assert isinstance(self.nodes, Tensor)
            out.index_copy_(0, self.nodes.index_select(0, self._kept), block.index_select(0, self._kept))

    def hide_padding_(self, block: Tensor, value: float) -> Tensor:
        return block if self.padding is None else block.masked_fill_(self.padding.flatten().unsqueeze(-1), value)

    def amax(self, block: Tensor) -> Tensor:
        return self._by_graph(block).amax(dim=2)

    def sum(self, block: Tensor) -> Tensor:
        return self._by_graph(block).sum(dim=2)

    def subtract_(self, block: Tensor, of_graphs: Tensor) -> Tensor:
        self._by_graph(block).sub_(of_graphs.unsqueeze(2))
        return block

    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        return self._by_graph(weights).transpose(2, 3) @ self._by_graph(values)

    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        left, right = self._by_graph(weights).flatten(0, 1), tables.flatten(0, 1)
        _product(left, right, out.view(left.size(0), self.length, tables.size(-1)), add=add)

    def _by_graph(self, block: Tensor) -> Tensor:
        """``[parts, places, ...]`` -> ``[parts, graphs, length, ...]``."""
        return block.unflatten(1, (block.size(1) // self.length, self.length))

    @cached_property
    def _kept(self) -> Tensor:
        """Places that are not padding."""
        padding = self.padding
        assert padding is not None
        return untransformed(lambda: (~padding).flatten().nonzero().squeeze(1))


@dataclass(frozen=True, kw_only=True)
class Run(Tile):
    """Consecutive graphs of any sizes, none of them padded.

    What a graph does for itself alone is a loop over graphs; everything else sees the places at once.

    Args:
        sizes: places of each graph, at least one.
    """

    sizes: tuple[int, ...]

    def amax(self, block: Tensor) -> Tensor:
        out = block.new_empty(block.size(0), len(self.sizes), block.size(2))
        for one, largest in zip(self._each(block), out.unbind(1), strict=True):
            torch.amax(one, 1, out=largest)
        return out

    def sum(self, block: Tensor) -> Tensor:
        out = block.new_empty(block.size(0), len(self.sizes), block.size(2))
        for one, total in zip(self._each(block), out.unbind(1), strict=True):
            torch.sum(one, 1, out=total)
        return out

    def subtract_(self, block: Tensor, of_graphs: Tensor) -> Tensor:
        for one, offset in zip(self._each(block), of_graphs.unsqueeze(2).unbind(1), strict=True):
            one.sub_(offset)
        return block

    def collect(self, weights: Tensor, values: Tensor) -> Tensor:
        out = weights.new_empty(weights.size(0), len(self.sizes), weights.size(2), values.size(2))
        for one, other, total in zip(self._each(weights), self._each(values), out.unbind(1), strict=True):
            torch.bmm(one.mT, other, out=total)
        return out

    def _multiply(self, weights: Tensor, tables: Tensor, out: Tensor, *, add: bool) -> None:
        for one, table, product in zip(self._each(weights), tables.unbind(1), self._each(out), strict=True):
            _product(one, table, product, add=add)

    def _each(self, block: Tensor) -> tuple[Tensor, ...]:
        """``[parts, places, ...]`` -> the places of each graph."""
        return block.split(self.sizes, 1)


def _product(left: Tensor, right: Tensor, out: Tensor, *, add: bool) -> None:
    if add:
        out.baddbmm_(left, right)
    else:
        torch.bmm(left, right, out=out)
