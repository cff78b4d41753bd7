"""chemprop itself, trained with slots as its readout and inside its message passing."""

from __future__ import annotations

import csv
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("chemprop", reason="chemprop is an extra: pip install 'mooring[chemprop]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # chemprop's and RDKit's own, many and of their own code

import numpy as np
from chemprop import data, models
from chemprop import nn as chemprop_nn
from lightning import pytorch as pl

import mooring.contrib.chemprop
from mooring.contrib.chemprop import SlotAtomMessagePassing, SlotBondMessagePassing, SlotReadout, WeightedMPNN
from support import assert_close

ALCOHOLS = [("C" * chain + "O" * (1 + chain % 2), 0.2 * chain) for chain in range(1, 25)]


def loader(weights: list[float] | None = None, batch_size: int = 24) -> Any:
    points = []
    for number, (smiles, value) in enumerate(ALCOHOLS):
        point = data.MoleculeDatapoint.from_smi(smiles, [value])
        if weights is not None:
            atoms = point.mol.GetNumAtoms()
            point.V_d = np.full((atoms, 1), weights[number % len(weights)])
        points.append(point)
    return data.build_dataloader(data.MoleculeDataset(points), batch_size=batch_size, shuffle=False, seed=0)


def model(block: Any = None, kind: Any = models.MPNN) -> Any:
    block = block or chemprop_nn.BondMessagePassing(d_h=32)
    head = chemprop_nn.RegressionFFN(input_dim=block.output_dim)
    return kind(block, SlotReadout(output_size=block.output_dim, slots=4), head, max_lr=3e-3, init_lr=3e-3)


def fit(net: Any, batches: Any, epochs: int, folder: Path) -> list[float]:
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    before = trainer.validate(net, batches, verbose=False)[0]["val_loss"]
    trainer.fit(net, batches)
    return [before, trainer.validate(net, batches, verbose=False)[0]["val_loss"]]


@pytest.mark.parametrize("block", [chemprop_nn.BondMessagePassing, SlotBondMessagePassing, SlotAtomMessagePassing])
def test_chemprop_trains_with_our_parts(block: Any, tmp_path: Path) -> None:
    net = model(block(d_h=32))
    before, after = fit(net, loader(), 40, tmp_path)
    assert after < 0.2 * before


def test_a_checkpoint_of_chemprop_gives_the_same_predictions(tmp_path: Path) -> None:
    net = model(SlotBondMessagePassing(d_h=32, slots=3, heads=2, memory={"temperature": 0.5})).eval()
    models.utils.save_model(tmp_path / "model.pt", net)
    again = models.utils.load_model(tmp_path / "model.pt", False).eval()
    batch = next(iter(loader()))
    assert_close(again(*batch[:3]), net(*batch[:3]))
    assert str(again.message_passing.memory) == str(net.message_passing.memory)


def test_bonds_of_one_molecule_exchange_nothing_with_another() -> None:
    net = model(SlotBondMessagePassing(d_h=32, memory={"init_std": 1.0})).eval()
    whole = net(*next(iter(loader()))[:3])
    alone = torch.cat([net(*batch[:3]) for batch in loader(batch_size=1)])
    assert_close(whole, alone)


def test_the_memory_carries_what_no_path_does() -> None:
    """Two molecules in one record, as in a salt: the second fragment is out of reach of message passing."""

    def atoms(block: Any, smiles: str) -> torch.Tensor:
        point = data.MoleculeDatapoint.from_smi(smiles, [0.0])
        bmg = next(iter(data.build_dataloader(data.MoleculeDataset([point]), batch_size=1))).bmg
        return block.eval()(bmg)[:2]

    plain = chemprop_nn.BondMessagePassing(d_h=32)
    moored = SlotBondMessagePassing(d_h=32, memory={"init_std": 0.1})
    assert_close(atoms(plain, "CC.OO"), atoms(plain, "CC.NN"))
    assert float((atoms(moored, "CC.OO") - atoms(moored, "CC.NN")).abs().max()) > 1e-4


def test_an_atom_of_weight_three_is_three_atoms() -> None:
    readout = SlotReadout(output_size=8, slots=3, heads=2)
    H, batch = torch.randn(3, 8), torch.tensor([0, 0, 1])
    weighted = readout(H, batch, torch.tensor([3.0, 1.0, 1.0]))
    rows = torch.tensor([0, 0, 0, 1, 2])
    assert_close(weighted, readout(H[rows], batch[rows]))
    assert_close(readout(H, batch, torch.ones(3)), readout(H, batch))
    assert_close(readout(H, batch, torch.tensor([1.0, 0.0, 1.0])), readout(H[[0, 2]], batch[[0, 2]]))
    with pytest.raises(ValueError, match=r"SlotReadout: weights has shape \[2\] but H has 3 atoms"):
        readout(H, batch, torch.ones(2))
    with pytest.raises(ValueError, match="negative or NaN"):
        readout(H, batch, torch.tensor([1.0, -1.0, math.nan]))


def test_weights_reach_the_readout_through_chemprop(tmp_path: Path) -> None:
    """The degree of polymerisation as a column of V_d, from the datapoint to the prediction."""
    net = model(kind=WeightedMPNN)
    before, after = fit(net, loader([1.0, 20.0]), 3, tmp_path)
    assert math.isfinite(before)
    assert after < before
    net.eval()
    once, often = (net(*next(iter(loader([weight])))[:3]) for weight in (1.0, 20.0))
    assert float((once - often).abs().min()) > 0.0
    with pytest.raises(ValueError, match="WeightedMPNN: V_d is missing"):
        net(*next(iter(loader()))[:3])


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Run the file that ``python -m mooring.contrib.chemprop`` runs."""
    monkeypatch.setattr(sys, "argv", ["chemprop", *map(str, arguments)])
    runpy.run_path(mooring.contrib.chemprop.__file__, run_name="__main__")


def test_the_command_learns_a_test_file_of_chemprop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train on 100 molecules of known lipophilicity with slots as the readout; predict them better than their mean."""
    table, predicted = Path(__file__).with_name("data") / "lipophilicity.csv", tmp_path / "predicted.csv"
    options = ["--accelerator", "cpu", "--num-workers", 0]
    train = ["train", "--data-path", table, "--aggregation", "slots", "--epochs", 40, "--output-dir", tmp_path]
    train += ["--batch-size", 16, "--init-lr", 1e-4, "--max-lr", 1e-3, "--final-lr", 1e-4, "--pytorch-seed", 0]
    command(monkeypatch, *train, *options)
    weights = next(tmp_path.rglob("best.pt"))
    assert isinstance(models.utils.load_model(weights, False).agg, SlotReadout)
    command(monkeypatch, "predict", "--test-path", table, "--model-paths", weights, "--output", predicted, *options)
    targets, guesses = (
        np.array([float(row["lipo"]) for row in csv.DictReader(path.open())]) for path in (table, predicted)
    )
    assert ((guesses - targets) ** 2).mean() < 0.7 * targets.var()
