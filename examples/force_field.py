"""Energies and forces of small clusters, with forces differentiated through the memory.

All bonds of a cluster share one supply of electrons: the first bonds attract, further ones repel. An edge sees only its
bond; the memory provides the total. Forces are minus the gradient of the energy, and training on them differentiates
that gradient once more.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing, global_add_pool

from mooring.nn import SlotVirtualNode

CHANNELS, CUTOFF, EPOCHS = 32, 1.6, 10


def cluster(seed: int) -> Data:
    """Return 6 to 27 atoms on a perturbed cubic lattice."""
    generator = torch.Generator().manual_seed(seed)
    size = int(torch.randint(6, 28, (1,), generator=generator))
    sites = torch.cartesian_prod(*[torch.arange(3.0)] * 3)[torch.randperm(27, generator=generator)[:size]]
    pos = (1.1 * sites + 0.1 * torch.randn(size, 3, generator=generator)).requires_grad_()
    bonds = 10 * (1 - torch.pdist(pos) / CUTOFF).relu().square().sum()
    energy = (bonds - 20).square() / 40
    (gradient,) = torch.autograd.grad(energy, pos)
    near = (torch.cdist(pos, pos) < CUTOFF).fill_diagonal_(False)
    return Data(pos=pos.detach(), edge_index=near.nonzero().t(), energy=energy.detach().view(1), force=-gradient)


class Potential(MessagePassing):
    def __init__(self, memory: nn.Module | None) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(8, CHANNELS), nn.SiLU(), nn.Linear(CHANNELS, CHANNELS))
        self.memory = memory
        self.head = nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.SiLU(), nn.Linear(CHANNELS, 1))

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        pos = data.pos.clone().requires_grad_()
        x = self.propagate(data.edge_index, pos=pos, size=(len(pos), len(pos)))
        x = x if self.memory is None else self.memory(x, data.batch)
        energy = global_add_pool(self.head(x), data.batch).squeeze(-1)
        return energy, -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]

    def message(self, pos_i: Tensor, pos_j: Tensor) -> Tensor:
        distance = (pos_i - pos_j).norm(dim=-1, keepdim=True)
        waves = torch.cos(torch.arange(8) * torch.pi * distance / CUTOFF)
        return self.edge(waves) * (1 - distance / CUTOFF).square()  # smooth where an edge ends


def main() -> None:
    clusters = [cluster(seed) for seed in range(250)]
    held_out = Batch.from_data_list(clusters[200:])
    print(f"{'mean absolute error of':<24}{'energy':>8}{'force':>8}")
    for name, slots in (("messages", 0), ("messages and a memory", 4)):
        torch.manual_seed(0)
        net = Potential(SlotVirtualNode(CHANNELS, slots, init_std=0.1) if slots else None)
        optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
        # A rate that falls to zero: at a constant one the last steps decide, and rounding decides them.
        decay = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=EPOCHS)
        for _ in range(EPOCHS):
            for batch in DataLoader(clusters[:200], batch_size=20, shuffle=True):
                energy, force = net(batch)
                loss = (energy - batch.energy).square().mean() + 10 * (force - batch.force).square().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            decay.step()
        energy, force = (output.detach() for output in net(held_out))
        print(f"{name:<24}{(energy - held_out.energy).abs().mean():>8.3f}{(force - held_out.force).abs().mean():>8.3f}")


if __name__ == "__main__":
    main()
