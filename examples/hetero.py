"""One memory for all node types: shops predict how many customers of the whole graph share their taste.

Edges lead from customers to shops of another taste, so a shop's neighbours do not help. Customers and shops have
features of different widths, and both write to and read from the same slots.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import HeteroConv, Linear, SAGEConv

from mooring.nn import HeteroSlotVirtualNode

TASTES, EPOCHS = 3, 30
WIDTHS = {"customer": 24, "shop": 16}


def town(seed: int) -> HeteroData:
    generator = torch.Generator().manual_seed(seed)
    customers, shops = (int(torch.randint(low, high, (1,), generator=generator)) for low, high in ((10, 40), (3, 9)))
    share = torch.rand(TASTES, generator=generator)
    taste = torch.multinomial(share, customers, replacement=True, generator=generator)
    offer = torch.randint(TASTES, (shops,), generator=generator)
    other = (taste.unsqueeze(1) != offer).nonzero().t()
    data = HeteroData()
    data["customer"].x = nn.functional.one_hot(taste, TASTES).float()
    data["shop"].x = nn.functional.one_hot(offer, TASTES).float()
    data["shop"].y = torch.bincount(taste, minlength=TASTES)[offer].float().log1p()
    data["customer", "passes", "shop"].edge_index = other[:, torch.randperm(other.size(1), generator=generator)[:shops]]
    data["shop", "greets", "customer"].edge_index = data["customer", "passes", "shop"].edge_index.flip(0)
    return data


class Net(nn.Module):
    def __init__(self, slots: int) -> None:
        super().__init__()
        self.lift = nn.ModuleDict({name: nn.Linear(TASTES, width) for name, width in WIDTHS.items()})
        to_shop, to_customer = SAGEConv((-1, -1), WIDTHS["shop"]), SAGEConv((-1, -1), WIDTHS["customer"])
        self.conv = HeteroConv({("customer", "passes", "shop"): to_shop, ("shop", "greets", "customer"): to_customer})
        self.memory = (
            HeteroSlotVirtualNode(WIDTHS, slots, competition=True, init_std=0.5, anchor_init=2.0) if slots else None
        )
        self.head = Linear(WIDTHS["shop"], 1)

    def forward(self, data: Batch) -> Tensor:
        x = {name: self.lift[name](x).relu() for name, x in data.x_dict.items()}
        x = {name: x[name] + h for name, h in self.conv(x, data.edge_index_dict).items()}
        if self.memory is not None:
            x = self.memory(x, data.batch_dict, num_graphs=data.num_graphs)
        return self.head(x["shop"]).squeeze(-1)


def train(slots: int, towns: list[HeteroData]) -> float:
    """Train on all towns but the last hundred; return the mean absolute error, in log counts, on those."""
    net = Net(slots)
    held_out = Batch.from_data_list(towns[-100:])
    net(held_out)  # initialises the lazy convolutions
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        for batch in DataLoader(towns[:-100], batch_size=50, shuffle=True):
            optimiser.zero_grad()
            nn.functional.smooth_l1_loss(net(batch), batch["shop"].y).backward()
            optimiser.step()
    with torch.no_grad():
        return float((net(held_out) - held_out["shop"].y).abs().mean())


def main() -> None:
    towns = [town(seed) for seed in range(300)]
    print(f"{'model':<40}{'error':>8}")
    for name, slots in (("HeteroConv", 0), ("HeteroConv + HeteroSlotVirtualNode", 6)):
        torch.manual_seed(0)
        print(f"{name:<40}{train(slots, towns):>8.3f}")


if __name__ == "__main__":
    main()
