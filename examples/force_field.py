"""Energies and forces of small clusters, with the forces taken through the memory.

Atoms attract and repel in the manner of Lennard and Jones and repel weakly at any distance. Edges end at a cutoff, so
the weak part is for the memory, which sees the whole cluster. Forces are minus the gradient of the energy, and training
on them differentiates that gradient once more.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing, global_add_pool

from mooring.nn import SlotVirtualNode

CHANNELS, CUTOFF, EPOCHS = 32, 1.6, 20


def energy_of(pos: Tensor) -> Tensor:
    square = torch.pdist(pos).square() + 0.2
    return (square**-6 - square**-3).sum() + 0.5 * square.rsqrt().sum()


def cluster(seed: int) -> Data:
    """6 to 14 atoms on a shaken cubic lattice."""
    generator = torch.Generator().manual_seed(seed)
    size = int(torch.randint(6, 15, (1,), generator=generator))
    sites = torch.cartesian_prod(*[torch.arange(3.0)] * 3)[torch.randperm(27, generator=generator)[:size]]
    pos = (1.1 * sites + 0.1 * torch.randn(size, 3, generator=generator)).requires_grad_()
    energy = energy_of(pos)
    (gradient,) = torch.autograd.grad(energy, pos)
    near = (torch.cdist(pos, pos) < CUTOFF).fill_diagonal_(False)
    return Data(pos=pos.detach(), edge_index=near.nonzero().t(), y=energy.detach().view(1), force=-gradient)


class Messages(MessagePassing):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(16, CHANNELS), nn.SiLU(), nn.Linear(CHANNELS, CHANNELS))

    def forward(self, pos: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, pos=pos, size=(len(pos), len(pos)))

    def message(self, pos_i: Tensor, pos_j: Tensor) -> Tensor:
        distance = (pos_i - pos_j).norm(dim=-1, keepdim=True)
        waves = torch.sin(torch.arange(1, 17) * torch.pi * distance / CUTOFF) / distance
        return self.mlp(waves) * (1 - distance / CUTOFF).square()  # smooth where an edge ends


class Potential(nn.Module):
    def __init__(self, memory: nn.Module | None) -> None:
        super().__init__()
        self.messages, self.memory = Messages(), memory
        self.head = nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.SiLU(), nn.Linear(CHANNELS, 1))

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        pos = data.pos.clone().requires_grad_()
        x = self.messages(pos, data.edge_index)
        if self.memory is not None:
            x = self.memory(x, data.batch, num_graphs=data.num_graphs)
        energy = global_add_pool(self.head(x), data.batch).squeeze(-1)
        return energy, -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]


def train(memory: nn.Module | None, clusters: list[Data]) -> tuple[float, float]:
    """Train on all clusters but the last fifty; return the mean absolute errors of energy and force on those."""
    net = Potential(memory)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(EPOCHS):
        for batch in DataLoader(clusters[:-50], batch_size=25, shuffle=True):
            energy, force = net(batch)
            loss = (energy - batch.y).square().mean() + 10 * (force - batch.force).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    held_out = Batch.from_data_list(clusters[-50:])
    energy, force = (one.detach() for one in net(held_out))
    return float((energy - held_out.y).abs().mean()), float((force - held_out.force).abs().mean())


def main() -> None:
    clusters = [cluster(seed) for seed in range(250)]
    print(f"{'model':<28}{'energy':>8}{'force':>8}")
    for name, slots in (("messages", 0), ("messages and a memory", 4)):
        torch.manual_seed(0)
        energy, force = train(SlotVirtualNode(CHANNELS, slots, init_std=0.5) if slots else None, clusters)
        print(f"{name:<28}{energy:>8.3f}{force:>8.3f}")


if __name__ == "__main__":
    main()
