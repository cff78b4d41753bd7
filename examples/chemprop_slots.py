"""chemprop with a memory in its message passing and slots as its readout, on molecules made here.

The target is the number of oxygens in the record, salts included: fragments have no bond between them.

    pip install 'mooring[chemprop]' && python examples/chemprop_slots.py
"""

import logging
import random
import warnings

from chemprop import data, models, nn
from lightning import pytorch as pl

from mooring.contrib.chemprop import SlotBondMessagePassing, SlotReadout

warnings.filterwarnings("ignore")  # of Lightning, about workers and batches
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def molecules(count: int, seed: int) -> data.MoleculeDataset:
    draw = random.Random(seed)
    points = []
    for _ in range(count):
        chain = ["O" if draw.random() < 0.3 else "C" for _ in range(draw.randint(4, 12))]
        smiles = "C" + "".join(chain) + draw.choice(["", ".CO", ".OCCO"])
        points.append(data.MoleculeDatapoint.from_smi(smiles, [float(smiles.count("O"))]))
    return data.MoleculeDataset(points)


def error(block: nn.message_passing.MessagePassing, readout: nn.Aggregation) -> float:
    pl.seed_everything(0, verbose=False)
    head = nn.RegressionFFN(input_dim=block.output_dim)
    model = models.MPNN(block, readout, head, metrics=[nn.metrics.MAE()])
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=15, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(model, data.build_dataloader(molecules(256, seed=0), batch_size=32, seed=0))
    tested = trainer.test(
        model, data.build_dataloader(molecules(64, seed=1), batch_size=64, shuffle=False), verbose=False
    )
    return tested[0]["test/mae"]


if __name__ == "__main__":
    mean = error(nn.BondMessagePassing(d_h=64), nn.MeanAggregation())
    print(f"chemprop, mean readout           mean absolute error {mean:.2f} oxygens")
    slots = error(SlotBondMessagePassing(d_h=64), SlotReadout(output_size=64))
    print(f"with a memory and slots          mean absolute error {slots:.2f} oxygens")
