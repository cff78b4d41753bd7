"""Sampled neighbourhoods of large graphs, with a memory that still counts the whole graph.

Every node must predict how many nodes of its graph share its colour. A step samples a few seeds of each graph and some
of their neighbours. The seeds are a uniform sample, so only they write, each with the weight of ``nodes / seeds``
nodes: pass ``sources`` and ``log_weight``. A model trained on samples then also works on whole graphs; without the
weights every count is wrong.

PyG's ``NeighborLoader`` needs pyg-lib or torch-sparse. Without them this example uses its base class ``NodeLoader`` and
a sampler in plain PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch_geometric.typing
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import NeighborLoader, NodeLoader
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from mooring.nn import SlotVirtualNode

COLOURS, CHANNELS, NODES, SEEDS, NEIGHBOURS, EPOCHS = 4, 32, 1_000, 50, 2, 6


class UniformNeighbours(BaseSampler):
    """One-hop sampler with replacement: ``NEIGHBOURS`` incoming edges of each seed."""

    def __init__(self, data: Data) -> None:
        self.order = data.edge_index[1].argsort(stable=True)
        self.source = data.edge_index[0, self.order]
        degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
        self.degree, self.start = degree, degree.cumsum(0) - degree

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        seeds = index.node[self.degree[index.node] > 0]
        pick = (torch.rand(len(seeds), NEIGHBOURS) * self.degree[seeds].unsqueeze(1)).long()
        place = (self.start[seeds].unsqueeze(1) + pick).flatten()
        ends = torch.stack([self.source[place], seeds.repeat_interleave(NEIGHBOURS)])
        node = torch.cat([index.node, ends[0][~torch.isin(ends[0], index.node)].unique()])
        local = torch.empty(len(self.degree), dtype=torch.long)
        local[node] = torch.arange(len(node))
        return SamplerOutput(node, *local[ends], self.order[place], metadata=(index.input_id, index.time))

    def sample_from_edges(self, *_: Any, **__: Any) -> SamplerOutput:
        raise NotImplementedError("Only nodes are sampled here.")


def loader(data: Data) -> NodeLoader:
    if torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE:
        return NeighborLoader(data, [NEIGHBOURS], batch_size=SEEDS, shuffle=True)
    return NodeLoader(data, node_sampler=UniformNeighbours(data), batch_size=SEEDS, shuffle=True)


def graph(seed: int) -> Data:
    generator = torch.Generator().manual_seed(seed)
    share = torch.randn(COLOURS, generator=generator).softmax(dim=0)
    colour = torch.multinomial(share, NODES, replacement=True, generator=generator)
    edges = torch.randint(NODES, (2, 5 * NODES), generator=generator)
    count = torch.bincount(colour, minlength=COLOURS)[colour]
    return Data(x=nn.functional.one_hot(colour, COLOURS).float(), edge_index=edges, y=(count * COLOURS / NODES).log())


def join(samples: Sequence[Data]) -> Batch:
    """Join a sample of each graph into one batch; ``seed`` marks the seed nodes."""
    seeds = [torch.arange(sample.num_nodes) < sample.batch_size for sample in samples]
    parts = zip(samples, seeds, strict=True)
    return Batch.from_data_list([Data(part.x, part.edge_index, y=part.y, seed=seed) for part, seed in parts])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift, self.head = nn.Linear(COLOURS, CHANNELS), nn.Linear(CHANNELS, 1)
        self.conv = SAGEConv(CHANNELS, CHANNELS)
        # Competing slots count nodes; anchors start at the weight of the dozens of nodes that write to each slot.
        self.memory = SlotVirtualNode(CHANNELS, 8, competition=True, anchor_init=3.0, integrate="residual")

    def forward(self, data: Batch, **written: Tensor) -> Tensor:
        x = self.memory(self.lift(data.x), data.batch, **written)
        return self.head(x + self.conv(x, data.edge_index)).squeeze(-1)


def train(graphs: list[Data], *, weighted: bool) -> float:
    """Train on samples of all graphs but the last six; return the mean absolute error, in log counts, on those."""
    net = Net()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    loaders = [loader(data) for data in graphs[:-6]]
    for batch in (join(samples) for _ in range(EPOCHS) for samples in zip(*loaders, strict=True)):
        log_weight = torch.full((batch.num_nodes,), math.log(NODES / SEEDS) if weighted else 0.0)
        out = net(batch, sources=batch.seed, log_weight=log_weight)
        optimiser.zero_grad()
        nn.functional.smooth_l1_loss(out[batch.seed], batch.y[batch.seed]).backward()
        optimiser.step()
    held_out = Batch.from_data_list(graphs[-6:])
    with torch.no_grad():
        return float((net(held_out) - held_out.y).abs().mean())


def main() -> None:
    graphs = [graph(seed) for seed in range(20)]
    print(f"{'samples':<28}{'error on whole graphs':>24}")
    for name, weighted in (("without log_weight", False), ("with log_weight", True)):
        torch.manual_seed(0)
        print(f"{name:<28}{train(graphs, weighted=weighted):>24.3f}")


if __name__ == "__main__":
    main()
