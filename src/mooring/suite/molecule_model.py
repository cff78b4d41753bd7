"""A network trained on a table of molecules, its metrics, and the folder it is kept in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils.smiles import e_map, x_map

from mooring.models import GNN
from mooring.models.plain import plain_arguments
from mooring.suite.files import write_atomic
from mooring.suite.molecule_csv import Molecules
from mooring.suite.real.metrics import loss_of, score

Kind = Literal["regression", "classification"]
METRICS: dict[Kind, tuple[str, ...]] = {
    "regression": ("rmse", "mae"),
    "classification": ("roc_auc", "average_precision"),
}
BATCH = 32
FEWEST = 10
# As Hugging Face's hub names them; mooring.contrib.hub loads them too.
CONFIG, WEIGHTS, ABOUT = "config.json", "model.safetensors", "training.json"


@dataclass(frozen=True)
class Settings:
    """How a network is trained.

    Args:
        channels, layers, slots: its size.
        epochs, learning_rate, seed: of the training. The seed also decides which molecules are held out.
    """

    channels: int = 64
    layers: int = 4
    slots: int = 8
    epochs: int = 50
    learning_rate: float = 1e-3
    seed: int = 0


@dataclass
class Trained:
    """A network and what its outputs mean.

    Args:
        net, config: the network, and the plain values it was built from.
        kind: of the targets.
        targets: their names.
        mean, std: of each target in training; a regression's outputs are in these units.
        metrics: by split, metric and target.
    """

    net: GNN
    config: dict[str, Any]
    kind: Kind
    targets: list[str]
    mean: Tensor
    std: Tensor
    metrics: dict[str, Any]

    @torch.no_grad()
    def predict(self, graphs: Sequence[Data]) -> Tensor:
        """Return values, or probabilities of class 1, ``[molecules, targets]``."""
        self.net.eval()
        parts = [_outputs(self.net, batch).double() for batch in DataLoader(list(graphs), batch_size=256)]
        outputs = torch.cat(parts)
        return outputs.sigmoid() if self.kind == "classification" else outputs * self.std + self.mean

    def save(self, folder: Path) -> None:
        """Write the folder; weights are safetensors, so that reading them runs no code."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CONFIG, json.dumps(self.config, indent=1))
        save_file({name: value.contiguous() for name, value in self.net.state_dict().items()}, folder / WEIGHTS)
        about = {"kind": self.kind, "targets": self.targets, "mean": self.mean.tolist(), "std": self.std.tolist()}
        write_atomic(folder / ABOUT, json.dumps({**about, "metrics": self.metrics}, indent=1))

    @classmethod
    def load(cls, folder: Path) -> Trained:
        """Read what :meth:`save` wrote."""
        for name in (CONFIG, WEIGHTS, ABOUT):
            if not (folder / name).is_file():
                raise ValueError(
                    f"{folder}: has no {name}, so it is not a model of `mooring train`. Name the folder that it wrote."
                )
        config, about = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (CONFIG, ABOUT))
        net = GNN(**plain_arguments(**config))
        net.load_state_dict(load_file(folder / WEIGHTS))
        mean, std = (torch.tensor(about[name], dtype=torch.float64) for name in ("mean", "std"))
        return cls(net, config, about["kind"], about["targets"], mean, std, about["metrics"])


def train(
    molecules: Molecules, targets: Sequence[str], settings: Settings, progress: Callable[[str], None] = print
) -> Trained:
    """Train on eight tenths of the molecules, select the epoch on one, measure on the last.

    Targets that are all 0 or 1 are classes, any others values.

    Args:
        molecules: with labels.
        targets: names of the labels.
        settings: sizes and epochs.
        progress: receives a line per epoch.
    """
    labelled = (~molecules.labels.isnan()).any(dim=1).nonzero().squeeze(1)
    if len(labelled) < FEWEST:
        raise ValueError(
            f"train: {len(labelled)} molecules have a label but at least {FEWEST} were expected. Check the columns, or "
            "add molecules."
        )
    labels = molecules.labels[labelled]
    present = labels[~labels.isnan()]
    kind: Kind = "classification" if bool(((present == 0) | (present == 1)).all()) else "regression"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        graphs = [molecules.graphs[number] for number in labelled.tolist()]
        return _trained(graphs, labels, kind, targets, settings, progress)


def _trained(
    graphs: list[Data],
    labels: Tensor,
    kind: Kind,
    targets: Sequence[str],
    settings: Settings,
    progress: Callable[[str], None],
) -> Trained:
    parts = _split(len(graphs))
    mean, std = (torch.zeros(len(targets)).double(), torch.ones(len(targets)).double())
    if kind == "regression":
        mean, std = _units(targets, labels[parts["train"]])
    rows = ((labels - mean) / std).float().unsqueeze(1)
    graphs = [Data(**graph.to_dict(), y=row) for graph, row in zip(graphs, rows, strict=True)]
    config = _config(settings, graphs, parts["train"], len(targets))
    result = Trained(GNN(**plain_arguments(**config)), config, kind, list(targets), mean, std, {})
    split = {name: [graphs[number] for number in numbers.tolist()] for name, numbers in parts.items()}
    _fit(result, split, labels[parts["valid"]], settings, progress)
    for name in ("valid", "test"):
        predicted, true = result.predict(split[name]), labels[parts[name]]
        result.metrics[name] = {
            metric: {
                target: _plain(score(metric, predicted[:, [place]], true[:, [place]]))  # type: ignore[arg-type]
                for place, target in enumerate(targets)
            }
            for metric in METRICS[kind]
        }
    result.metrics["molecules"] = {name: len(numbers) for name, numbers in parts.items()}
    result.metrics["settings"] = asdict(settings)
    return result


def _fit(
    result: Trained, split: dict[str, list[Data]], valid: Tensor, settings: Settings, progress: Callable[[str], None]
) -> None:
    """Train the network of a result and keep the weights of its best epoch."""
    net, classifies = result.net, result.kind == "classification"
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, epochs=settings.epochs, steps_per_epoch=max(1, len(split["train"]) // BATCH)
    )
    metric = METRICS[result.kind][0]
    # A last batch of one atom has no variance.
    loader = DataLoader(split["train"], batch_size=BATCH, shuffle=True, drop_last=len(split["train"]) >= BATCH)
    best, kept = -math.inf, _copied(net)
    for epoch in range(settings.epochs):
        net.train()
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(classifies, _outputs(net, batch), batch.y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() / len(loader)
        value = score(metric, result.predict(split["valid"]), valid)  # type: ignore[arg-type]
        quality = value if classifies else -value
        # Where nothing can be measured, such as ranks of one class, the last epoch is kept.
        if quality >= best or math.isnan(quality):
            best, kept = (best if math.isnan(quality) else quality), _copied(net)
        progress(f"epoch {epoch + 1} of {settings.epochs}: loss {total:.4f}, {metric} of the validation {value:.4f}")
    net.load_state_dict(kept)


def _copied(net: GNN) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def _outputs(net: GNN, batch: Any) -> Tensor:
    return net(batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr)


def _split(count: int) -> dict[str, Tensor]:
    """Eight tenths, a tenth, a tenth, by torch's generator."""
    order, held = torch.randperm(count), max(1, count // 10)
    return {"train": order[2 * held :], "valid": order[:held], "test": order[held : 2 * held]}


def _units(targets: Sequence[str], labels: Tensor) -> tuple[Tensor, Tensor]:
    mean = labels.nanmean(dim=0)
    std = (labels - mean).square().nanmean(dim=0).sqrt()
    for name, one, spread in zip(targets, mean.tolist(), std.tolist(), strict=True):
        if math.isnan(one):
            raise ValueError(f"train: {name} has no number among the molecules trained on. Leave it out.")
        if spread == 0.0:
            raise ValueError(f"train: {name} is {one:g} wherever it is given, so nothing can be learned. Leave it out.")
    return mean, std


def _config(settings: Settings, graphs: list[Data], trained: Tensor, out_channels: int) -> dict[str, Any]:
    sizes = sum(int(graphs[number].num_nodes) for number in trained.tolist()) / len(trained)
    return {
        "encoder": [len(values) for values in x_map.values()],
        "edge_encoder": [len(values) for values in e_map.values()],
        "channels": settings.channels,
        "out_channels": out_channels,
        "layers": settings.layers,
        "memory": {"slots": settings.slots},
        "readout": "mean+sum",
        "dropout": 0.1,
        "typical_size": round(sizes, 3),
    }


def _plain(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
