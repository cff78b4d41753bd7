"""Migration from PyG's GPSConv to SlotConv: same position in a network, same call, and the differences.

    GPSConv(channels, GINConv(...), heads=4)           attention between all pairs of nodes of a graph
    SlotConv(channels, GINConv(...), slots=8, heads=4)  attention through 8 slots

Both have their default options. Every node must predict how many nodes of its graph share its colour. Graphs of very
different sizes share a batch: dense attention pads them to the largest, slots need no padding.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, GPSConv

from mooring.nn import SlotConv

COLOURS, CHANNELS, EPOCHS = 4, 32, 8


def path(seed: int) -> Data:
    """Return a path of 5 to 29 coloured nodes, or of 300 for every 25th seed; ``y`` is the log count of its colour."""
    generator = torch.Generator().manual_seed(seed)
    size = 300 if seed % 25 == 0 else int(torch.randint(5, 30, (1,), generator=generator))
    share = torch.rand(COLOURS, generator=generator)
    colour = torch.multinomial(share, size, replacement=True, generator=generator)
    forward = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    count = torch.bincount(colour, minlength=COLOURS)[colour]
    x = nn.functional.one_hot(colour, COLOURS).float()
    return Data(x=x, edge_index=torch.cat([forward, forward.flip(0)], dim=1), y=count.float().log())


def local() -> GINConv:
    return GINConv(nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.ReLU(), nn.Linear(CHANNELS, CHANNELS)))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GPSConv": lambda: GPSConv(CHANNELS, local(), heads=4),
    "SlotConv": lambda: SlotConv(CHANNELS, local(), slots=8, heads=4, init_std=0.1),
}


class Net(nn.Module):
    """Network that works with either layer."""

    def __init__(self, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.lift, self.head = nn.Linear(COLOURS, CHANNELS), nn.Linear(CHANNELS, 1)
        self.layers = nn.ModuleList(layer() for _ in range(2))

    def forward(self, data: Batch) -> Tensor:
        x = self.lift(data.x)
        for layer in self.layers:
            x = layer(x, data.edge_index, data.batch)
        return self.head(x).squeeze(-1)


def train(layer: Callable[[], nn.Module], graphs: list[Data]) -> tuple[float, float]:
    """Train on all graphs but the last fifty; return the mean absolute error on those, and seconds of training."""
    net = Net(layer)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    start = time.process_time()
    for _ in range(EPOCHS):
        for batch in DataLoader(graphs[:-50], batch_size=25, shuffle=True):
            optimiser.zero_grad()
            nn.functional.smooth_l1_loss(net(batch), batch.y).backward()
            optimiser.step()
    seconds, held_out = time.process_time() - start, Batch.from_data_list(graphs[-50:])
    with torch.no_grad():
        return float((net.eval()(held_out) - held_out.y).abs().mean()), seconds


@torch.no_grad()
def shift_by_batch_mates(layer: Callable[[], nn.Module], graphs: list[Data]) -> float:
    """Return the change of a graph's output, in training mode, due to the graphs in its batch."""
    net = Net(layer).train()
    alone, together = net(Batch.from_data_list(graphs[1:2])), net(Batch.from_data_list(graphs[1:9]))
    return float((together[: len(alone)] - alone).abs().max())


def main() -> None:
    graphs = [path(seed) for seed in range(200)]
    print(f"{'layer':<10}{'parameters':>12}{'error':>8}{'seconds':>10}{'moved by batch mates':>24}")
    for name, layer in LAYERS.items():
        torch.manual_seed(0)
        shift = shift_by_batch_mates(layer, graphs)
        error, seconds = train(layer, graphs)
        count = sum(parameter.numel() for parameter in Net(layer).parameters())
        print(f"{name:<10}{count:>12,}{error:>8.3f}{seconds:>10.1f}{shift:>24.1e}")


if __name__ == "__main__":
    main()
