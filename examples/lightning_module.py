"""A LightningModule with SlotConv layers; needs ``pip install lightning``.

The task is to classify graphs by whether they have more red nodes than blue ones.
"""

from __future__ import annotations

import lightning
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv

from mooring.nn import SlotAggregation, SlotConv

CHANNELS, EPOCHS = 32, 4


def ring(seed: int) -> Data:
    """Return a ring of 5 to 20 nodes, red, blue or grey; ``y`` is whether red nodes outnumber blue ones."""
    generator = torch.Generator().manual_seed(seed)
    size = int(torch.randint(5, 21, (1,), generator=generator))
    colour = torch.randint(3, (size,), generator=generator)
    node = torch.arange(size)
    edges = torch.stack([torch.cat([node, node.roll(-1)]), torch.cat([node.roll(-1), node])])
    more_red = (colour == 0).sum() > (colour == 1).sum()
    return Data(x=nn.functional.one_hot(colour, 3).float(), edge_index=edges, y=more_red.float().view(1))


class Classifier(lightning.LightningModule):
    def __init__(self, channels: int = CHANNELS, slots: int = 4, lr: float = 5e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.lift = nn.Linear(3, channels)
        self.layers = nn.ModuleList(
            SlotConv(channels, GINConv(nn.Linear(channels, channels)), slots, competition=True, init_std=0.1)
            for _ in range(2)
        )
        self.readout = SlotAggregation(channels, slots, out_channels=1)

    def forward(self, data: Batch) -> Tensor:
        x = self.lift(data.x)
        for layer in self.layers:
            x = layer(x, data.edge_index, ptr=data.ptr)
        return self.readout(x, ptr=data.ptr).squeeze(-1)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(self(batch), batch.y)

    def validation_step(self, batch: Batch, _: int) -> None:
        right = (self(batch) > 0) == batch.y.bool()
        self.log("accuracy", right.float().mean(), batch_size=batch.num_graphs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main() -> None:
    torch.manual_seed(0)
    rings = [ring(seed) for seed in range(600)]
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), DataLoader(rings[:500], 50, shuffle=True), DataLoader(rings[500:], 100))
    print(f"accuracy {float(trainer.callback_metrics['accuracy']):.2f}")


if __name__ == "__main__":
    main()
