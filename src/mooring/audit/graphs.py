"""The inputs of the measurements: batches of graphs that can be permuted, joined and replicated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class GraphBatch:
    """Graphs in one batch, in PyG's flat layout.

    Args:
        x: Node features.
        index: Graph id of every node, in any order.
        edge_index: Edges; only layers read them.
        num_graphs: Number of graphs, empty ones included.

    Shapes:
        x ``[nodes, channels]``, index ``[nodes]``, edge_index ``[2, edges]``.
    """

    x: Tensor
    index: Tensor
    edge_index: Tensor
    num_graphs: int

    @property
    def num_nodes(self) -> int:
        return int(self.x.size(0))

    def with_features(self, x: Tensor) -> GraphBatch:
        """Return the same graphs with other node features."""
        return replace(self, x=x)

    def permute(self, order: Tensor) -> GraphBatch:
        """Return the same graphs with node ``order[i]`` moved to place ``i``."""
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel())
        return GraphBatch(self.x[order], self.index[order], place[self.edge_index], self.num_graphs)

    def replicate(self, times: int) -> GraphBatch:
        """Return rX: one graph made of ``times`` disjoint copies of this one, the first copy first."""
        assert self.num_graphs == 1, "only a single graph is replicated"
        shift = torch.arange(times).repeat_interleave(self.edge_index.size(1)) * self.num_nodes
        return single(self.x.repeat(times, 1), self.edge_index.repeat(1, times) + shift)


def single(x: Tensor, edge_index: Tensor | None = None) -> GraphBatch:
    """Return one graph; without ``edge_index`` its nodes are isolated."""
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.long)
    return GraphBatch(x, torch.zeros(x.size(0), dtype=torch.long), edge_index, 1)


def collate(graphs: Sequence[GraphBatch]) -> GraphBatch:
    """Return the graphs side by side in one batch, in the given order; graphs without nodes keep their id."""
    index, edges, nodes, offset = [], [], 0, 0
    for graph in graphs:
        index.append(graph.index + offset)
        edges.append(graph.edge_index + nodes)
        nodes += graph.num_nodes
        offset += graph.num_graphs
    return GraphBatch(torch.cat([graph.x for graph in graphs]), torch.cat(index), torch.cat(edges, dim=1), offset)


def random_graph(generator: torch.Generator, nodes: int, channels: int, scale: float = 1.0) -> GraphBatch:
    """Return one graph with normal features on a ring with a few random chords, every edge in both directions."""
    x = scale * torch.randn(nodes, channels, generator=generator, dtype=torch.float64)
    if nodes < 3:
        return single(x)
    start = torch.arange(nodes)
    chords = torch.randint(nodes, (2, max(1, nodes // 3)), generator=generator)
    chords = chords[:, chords[0] != chords[1]]
    edges = torch.cat([torch.stack([start, (start + 1) % nodes]), chords], dim=1)
    return single(x, torch.cat([edges, edges.flip(0)], dim=1))
