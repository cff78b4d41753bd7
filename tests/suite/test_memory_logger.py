"""What a run's logger receives, and that a run is the same with it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from typer.testing import CliRunner

from mooring.models import GNN
from mooring.nn import SlotVirtualNode
from mooring.suite.cli import app
from mooring.suite.memory_logger import MemoryLogger
from mooring.suite.train import RunRequest
from mooring.suite.train.run import run_one

# Lightning's own, about pytrees and workers.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

NUMBERS = {
    "anchor_share",
    "slots_written",
    "slots_read",
    "write_entropy",
    "read_entropy",
    "log_mass_min",
    "log_mass_max",
}


class Trained(lightning.LightningModule):
    """A network of the user's, with dropout in its memories, that fails at a step if told to."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = GNN(5, 16, 1, layers=3, memory=lambda width: SlotVirtualNode(width, 4, dropout=0.2))
        self.fails_at = fails_at

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if batch_idx == self.fails_at:
            raise ArithmeticError
        return (self.net(batch.x, batch.edge_index, batch=batch.batch) - batch.y).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(module: Trained, folder: Path, *callbacks: lightning.Callback) -> Trained:
    torch.manual_seed(1)
    edges = torch.tensor([[0, 1], [1, 2]])
    graphs = [Data(x=torch.randn(4, 5), edge_index=edges, y=torch.ones(1, 1)) for _ in range(12)]
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=CSVLogger(folder, name="", version="logs") if callbacks else False,
        callbacks=list(callbacks),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(graphs, batch_size=3))
    return module


def logged(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_numbers_of_every_memory_are_logged_every_so_many_steps(tmp_path: Path) -> None:
    fit(Trained(), tmp_path, MemoryLogger(every=3, first_step=100))
    rows = logged(tmp_path / "logs" / "metrics.csv")
    assert [row["step"] for row in rows] == ["100", "103", "106"]
    expected = {f"memory/net.memory.{place}/{number}" for place in (0, 1) for number in NUMBERS}
    assert expected | {"step"} == rows[0].keys()
    assert all(1.0 <= float(row["memory/net.memory.1/slots_read"]) <= 4.0 for row in rows)


def test_training_is_the_same_with_it(tmp_path: Path) -> None:
    watched = fit(Trained(), tmp_path, MemoryLogger(every=1))
    for one, other in zip(watched.parameters(), fit(Trained(), tmp_path).parameters(), strict=True):
        assert torch.equal(one, other)
    assert not any(module._forward_hooks for module in watched.modules())


def test_a_failed_step_leaves_no_hooks_behind(tmp_path: Path) -> None:
    module = Trained(fails_at=1)
    with pytest.raises(ArithmeticError):
        fit(module, tmp_path, MemoryLogger(every=1))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def request(out: Path, logger: str | None, **changes: Any) -> RunRequest:
    changes = {"epochs": 2, "steps_per_epoch": 2, **changes}
    return RunRequest("motifs", "anchored", 0, "tiny", changes, out, logger=logger)


def test_a_run_logs_its_epochs_and_memories_and_its_record_is_the_same(tmp_path: Path) -> None:
    records = {name: run_one(request(tmp_path / str(name), name)) for name in (None, "csv")}
    assert records["csv"].metrics == records[None].metrics
    (path,) = (tmp_path / "csv").rglob("metrics.csv")
    assert path.parent.name == "from-epoch-0"
    rows = logged(path)
    losses = [float(row["train/loss"]) for row in rows if row["train/loss"]]
    assert losses == pytest.approx([row["train/loss"] for row in records[None].metrics["epochs"]])
    measured = [row for row in rows if any(row[name] for name in row if name.endswith("slots_written"))]
    assert [row["step"] for row in measured] == ["0", "2"]


def test_tensorboard_gets_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_one(request(tmp_path, "tensorboard"))
    (events,) = tmp_path.rglob("events.out.tfevents.*")
    found = EventAccumulator(str(events)).Reload().Tags()["scalars"]
    assert "train/loss" in found
    assert any(name.endswith("/anchor_share") for name in found)


def test_the_command_names_a_logger_it_does_not_have(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "motifs", "--logger", "tensorbord", "--out", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert "unknown logger 'tensorbord'; did you mean 'tensorboard'?" in str(result.exception)
