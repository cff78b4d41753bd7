"""A GIN with and without slots, on a task that no neighbourhood can solve.

Every node has a colour and must predict how many nodes of its graph share it. The graphs are rings, so two layers of
message passing see five nodes; the count depends on the whole graph. A plain virtual node has one state for all
colours. Slots can be one per colour, and their anchors count.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv

from mooring.nn import SlotVirtualNode, VirtualNode

COLOURS, CHANNELS, EPOCHS = 4, 32, 25


def ring(generator: torch.Generator) -> Data:
    """Return a ring of 12 to 24 coloured nodes; ``y`` is the log of the number of nodes of the same colour."""
    size = int(torch.randint(12, 25, (1,), generator=generator))
    share = torch.rand(COLOURS, generator=generator)
    colour = torch.multinomial(share, size, replacement=True, generator=generator)
    node = torch.arange(size)
    edges = torch.stack([torch.cat([node, node.roll(-1)]), torch.cat([node.roll(-1), node])])
    count = torch.bincount(colour, minlength=COLOURS)[colour]
    return Data(x=nn.functional.one_hot(colour, COLOURS).float(), edge_index=edges, y=count.float().log())


class GIN(nn.Module):
    """Two GIN layers with an optional memory between them."""

    def __init__(self, memory: nn.Module | None) -> None:
        super().__init__()
        self.lift = nn.Linear(COLOURS, CHANNELS)
        self.convs = nn.ModuleList(GINConv(nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.ReLU())) for _ in range(2))
        self.memory = memory
        self.head = nn.Linear(CHANNELS, 1)

    def forward(self, data: Batch) -> Tensor:
        x = self.lift(data.x)
        x = x + self.convs[0](x, data.edge_index)
        if self.memory is not None:
            x = self.memory(x, data.batch)
        x = x + self.convs[1](x, data.edge_index)
        return self.head(x).squeeze(-1)


def train(memory: nn.Module | None, graphs: list[Data]) -> float:
    """Train on all graphs but the last hundred; return the mean absolute error, in log counts, on those."""
    net = GIN(memory)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(EPOCHS):
        for batch in DataLoader(graphs[:-100], batch_size=50, shuffle=True):
            optimiser.zero_grad()
            nn.functional.smooth_l1_loss(net(batch), batch.y).backward()
            optimiser.step()
    held_out = Batch.from_data_list(graphs[-100:])
    with torch.no_grad():
        return float((net(held_out) - held_out.y).abs().mean())


def main() -> None:
    graphs = [ring(torch.Generator().manual_seed(seed)) for seed in range(400)]
    memories = {
        "GIN": lambda: None,
        "GIN + VirtualNode": lambda: VirtualNode(CHANNELS),
        "GIN + SlotVirtualNode": lambda: SlotVirtualNode.moored(CHANNELS, slots=8),
    }
    print(f"{'model':<24}{'error':>8}{'seconds':>10}")
    for name, build in memories.items():
        torch.manual_seed(0)
        start = time.perf_counter()
        error = train(build(), graphs)
        print(f"{name:<24}{error:>8.3f}{time.perf_counter() - start:>10.1f}")


if __name__ == "__main__":
    main()
