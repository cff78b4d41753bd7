"""A user's own molecules: a table of SMILES and labels, and a network trained on it with its metrics."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_smiles
from torch_geometric.utils.smiles import e_map, x_map

from mooring.look import Page, look
from mooring.models import GNN
from mooring.models.encoders import plain_arguments
from mooring.named import suggest
from mooring.suite.files import write_atomic
from mooring.suite.real.metrics import loss_of, score
from mooring.table import ABSENT, Column, Table

# Spellings of a missing value.
MISSING = {"", "na", "n/a", "nan", "none", "null", "-"}
MOST_LISTED = 10
EXAMPLES = 4
Kind = Literal["regression", "classification"]
METRICS: dict[Kind, tuple[str, ...]] = {
    "regression": ("rmse", "mae"),
    "classification": ("roc_auc", "average_precision"),
}
BATCH = 32
FEWEST = 10
HEADS = 4
# As Hugging Face's hub names them; mooring.contrib.hub loads them too.
CONFIG, WEIGHTS, ABOUT = "config.json", "model.safetensors", "training.json"


@dataclass
class Molecules:
    """The molecules of a file: graphs with PyG's features, SMILES, lines and labels ``[molecules, targets]``.

    Args:
        problems: lines that could not be used as they are.
        missing: the lines without a label, by target.
    """

    graphs: list[Data] = field(default_factory=list)
    smiles: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    labels: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    problems: list[str] = field(default_factory=list)
    missing: dict[str, list[int]] = field(default_factory=dict)

    def listed(self) -> list[str]:
        """Return the first problems, the number of the others, and the lines without labels."""
        rest = len(self.problems) - MOST_LISTED
        notes = [*self.problems[:MOST_LISTED], *([f"... and {rest} more lines"] if rest > 0 else [])]
        for name, lines in self.missing.items():
            first = ", ".join(map(str, lines[:MOST_LISTED])) + (", ..." if len(lines) > MOST_LISTED else "")
            notes.append(f"{name}: no label in {len(lines):,} line{'s' * (len(lines) != 1)}: {first}")
        return notes


def read_molecules(path: Path, smiles: str, targets: Sequence[str] = ()) -> Molecules:
    """Read the molecules of a CSV file with a header line, from a column of SMILES and columns of labels.

    A line whose SMILES cannot be read is left out. A label that is missing or not a number is NaN. Both are listed.
    """
    if importlib.util.find_spec("rdkit") is None:
        raise ImportError("train: SMILES are read with RDKit, which is missing: pip install 'mooring[molecules]'")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not text in UTF-8 ({error.reason}). Save it as CSV in UTF-8.") from error
    reader = csv.reader(text.splitlines())
    header = [name.strip() for name in next(reader, [])]
    for name in (smiles, *targets):
        if name not in header:
            first = ",".join(header)
            meant = suggest(name, header, f"its first line is {first[:120]!r}, which must name the columns.")
            raise ValueError(f"{path}: has no column {name!r}; {meant}")
    molecules, labels = Molecules(), []
    for row in reader:
        line = reader.line_num
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            molecules.problems.append(f"line {line}: has {len(row)} fields, the header {len(header)}; left out")
            continue
        cells = {name: row[header.index(name)].strip() for name in (smiles, *targets)}
        graph = _graph(cells[smiles])
        if isinstance(graph, str):
            molecules.problems.append(f"line {line}: {graph}; left out")
            continue
        molecules.graphs.append(graph)
        molecules.smiles.append(cells[smiles])
        molecules.lines.append(line)
        labels.append([_label(molecules, line, name, cells[name]) for name in targets])
    if not molecules.graphs:
        reasons = "; ".join(molecules.listed()) or "there are no lines below the header"
        raise ValueError(f"{path}: no molecule could be read from column {smiles!r}: {reasons}.")
    molecules.labels = torch.tensor(labels, dtype=torch.float64).view(len(labels), len(targets))
    return molecules


def _graph(smiles: str) -> Data | str:
    """Return the graph of a molecule, or the reason why there is none."""
    from rdkit import Chem, RDLogger
    from torch_geometric.utils import from_rdmol

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    molecule: Any = Chem.MolFromSmiles(smiles) if smiles else None
    if molecule is None or molecule.GetNumAtoms() == 0:
        return f"{smiles!r} is not a SMILES that RDKit can read" if smiles else "the SMILES is missing"
    try:
        graph = from_rdmol(molecule)
    except ValueError:
        return f"{smiles!r} has an atom or a bond of a kind that PyG's features do not have"
    # Batches of graphs need neither, and strings of thousands of molecules are slow to collate.
    return Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)


def _label(molecules: Molecules, line: int, name: str, text: str) -> float:
    if text.lower() in MISSING:
        molecules.missing.setdefault(name, []).append(line)
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        molecules.problems.append(f"line {line}: {name} is {text!r}, which is not a number; taken as missing")
        return math.nan
    return value


def write_predictions(path: Path, molecules: Molecules, names: Iterable[str], values: Tensor) -> None:
    """Write a CSV of the molecules with one column per target."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "smiles", *names])
        for line, smiles, row in zip(molecules.lines, molecules.smiles, values.tolist(), strict=True):
            writer.writerow([line, smiles, *(f"{value:.6g}" for value in row)])


@dataclass(frozen=True)
class Settings:
    """Size of the network, and settings of the training; the seed also decides which molecules are held out."""

    channels: int = 64
    layers: int = 4
    slots: int = 8
    epochs: int = 50
    learning_rate: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.channels % HEADS:
            raise ValueError(
                f"train: channels is {self.channels} but a multiple of {HEADS} was expected, as the memory has {HEADS} "
                f"heads. Pass {self.channels // HEADS * HEADS + HEADS}."
            )


@dataclass
class TrainedGNN:
    """A network with the plain values it was built from, the meaning of its outputs, and its metrics.

    Args:
        mean, std: of each target in training; a regression's outputs are in these units.
        metrics: by split, metric and target; ``"constant"`` are those of the mean label of the training, on the test.
        examples: SMILES of some of the molecules of the test, for `mooring look`.
    """

    net: GNN
    config: dict[str, Any]
    kind: Kind
    targets: list[str]
    mean: Tensor
    std: Tensor
    metrics: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @torch.no_grad()
    def predict(self, graphs: Sequence[Data]) -> Tensor:
        """Return values, or probabilities of class 1, ``[molecules, targets]``."""
        self.net.eval()
        outputs = torch.cat([_outputs(self.net, batch) for batch in DataLoader(list(graphs), batch_size=256)]).double()
        return outputs.sigmoid() if self.kind == "classification" else outputs * self.std + self.mean

    def save(self, folder: Path) -> None:
        """Write the folder; weights are safetensors, so that reading them runs no code."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CONFIG, json.dumps(self.config, indent=1))
        save_file({name: value.contiguous() for name, value in self.net.state_dict().items()}, folder / WEIGHTS)
        about = {"kind": self.kind, "targets": self.targets, "mean": self.mean.tolist(), "std": self.std.tolist()}
        results = {"metrics": self.metrics, "examples": self.examples}
        write_atomic(folder / ABOUT, json.dumps({**about, **results}, indent=1))

    @classmethod
    def load(cls, folder: Path) -> TrainedGNN:
        """Read the folder of :meth:`save`."""
        for name in (CONFIG, WEIGHTS, ABOUT):
            if not (folder / name).is_file():
                raise ValueError(
                    f"{folder}: has no {name}, so it is not a model of `mooring train`. Name the folder that it wrote."
                )
        config, about = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (CONFIG, ABOUT))
        net = GNN(**plain_arguments(**config))
        net.load_state_dict(load_file(folder / WEIGHTS))
        mean, std = (torch.tensor(about[name], dtype=torch.float64) for name in ("mean", "std"))
        values = (about["kind"], about["targets"], mean, std, about["metrics"], about.get("examples", []))
        return cls(net, config, *values)

    def to_table(self) -> Table:
        """Return the metrics of the held-out molecules, one row per target."""
        columns, cells = [Column("target", left=True)], [self.targets]
        for split, group in (("test", "test"), ("constant", "a constant, test"), ("valid", "validation")):
            for name in METRICS[self.kind]:
                values = self.metrics[split][name]
                columns.append(Column(name.replace("_", " "), group=group))
                cells.append([ABSENT if values[target] is None else f"{values[target]:.3f}" for target in self.targets])
        note = "{}; trained on {train}, selected on {valid}, tested on {test} molecules"
        constant = "A constant: the mean label of the molecules trained on, predicted for every molecule of the test."
        notes = (note.format(self.kind, **self.metrics["molecules"]), constant)
        return Table("train", "held-out molecules", tuple(columns), tuple(zip(*cells, strict=True)), notes=notes)


def is_model(folder: Path) -> bool:
    """Return whether a folder is that of a model of `mooring train`."""
    return (folder / ABOUT).is_file()


def page_of_model(folder: Path, data: str | None = None, *, audited: bool = False, **options: Any) -> Page:
    """Return the page of a model of `mooring train` on molecules of its test.

    Args:
        folder: the folder of the model.
        data, audited: as in :func:`mooring.suite.look.page_of`.
        options: as in :func:`mooring.look.look`.
    """
    from mooring.suite.look import audit_card, load_data

    model = TrainedGNN.load(folder)
    if data is None and not model.examples:
        raise ValueError(f"look: {folder} names no molecules to show. Pass --data, or train the model again.")
    graphs = [from_smiles(smiles) for smiles in model.examples] if data is None else load_data(data)
    card = audit_card(model.net) if audited else None
    return look(model.net, graphs, card=card, title=f"{folder}: {', '.join(model.targets)}", **options)


def train(
    molecules: Molecules, targets: Sequence[str], settings: Settings, progress: Callable[[str], None]
) -> TrainedGNN:
    """Train on eight tenths of the molecules, select the epoch on one, measure on the last.

    Targets that are all 0 or 1 are classes, any others values. `progress` receives a line per epoch. The caller's
    random state is restored.
    """
    labelled = (~molecules.labels.isnan()).any(dim=1).nonzero().squeeze(1)
    count = len(labelled)
    if count < FEWEST:
        raise ValueError(
            f"train: {count} molecules have a label but at least {FEWEST} were expected. Check the columns, or "
            "add molecules."
        )
    labels = molecules.labels[labelled]
    classifies = bool((labels.isnan() | (labels == 0) | (labels == 1)).all())
    kind: Kind = "classification" if classifies else "regression"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        order, held = torch.randperm(count), max(1, count // 10)
        parts = {"train": order[2 * held :], "valid": order[:held], "test": order[held : 2 * held]}
        # The zeros and ones of classes are their own units.
        zeros = torch.zeros(len(targets)).double()
        mean, std = (zeros, zeros + 1) if classifies else _units(targets, labels[parts["train"]])
        rows = ((labels - mean) / std).float().unsqueeze(1)
        graphs = [
            Data(**molecules.graphs[number].to_dict(), y=row)
            for number, row in zip(labelled.tolist(), rows, strict=True)
        ]
        split = {name: [graphs[number] for number in numbers.tolist()] for name, numbers in parts.items()}
        config = {
            "encoder": [len(values) for values in x_map.values()],
            "edge_encoder": [len(values) for values in e_map.values()],
            "channels": settings.channels,
            "out_channels": len(targets),
            "layers": settings.layers,
            "memory": {"slots": settings.slots, "heads": HEADS},
            "readout": "mean+sum",
            "dropout": 0.1,
            "typical_size": round(sum(int(graph.num_nodes or 0) for graph in split["train"]) / len(split["train"]), 3),
        }
        result = TrainedGNN(GNN(**plain_arguments(**config)), config, kind, list(targets), mean, std)
        _fit(result, split, labels[parts["valid"]], settings, progress)
        test = labels[parts["test"]]
        predictions = {
            "valid": (result.predict(split["valid"]), labels[parts["valid"]]),
            "test": (result.predict(split["test"]), test),
            "constant": (labels[parts["train"]].nanmean(dim=0).expand_as(test), test),
        }
    for name, pair in predictions.items():
        result.metrics[name] = {metric: _scores(metric, targets, *pair) for metric in METRICS[kind]}
    result.examples = [molecules.smiles[number] for number in labelled[parts["test"][:EXAMPLES]].tolist()]
    result.metrics["molecules"] = {name: len(numbers) for name, numbers in parts.items()}
    result.metrics["settings"] = asdict(settings)
    return result


def _scores(metric: str, targets: Sequence[str], predicted: Tensor, true: Tensor) -> dict[str, float | None]:
    """Return a metric of each target; None if it is not defined."""
    values = [score(metric, *pair) for pair in zip(predicted.split(1, 1), true.split(1, 1), strict=True)]  # type: ignore[arg-type]
    rounded = [round(value, 6) if math.isfinite(value) else None for value in values]
    return dict(zip(targets, rounded, strict=True))


def _units(targets: Sequence[str], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each target; ValueError if there is none."""
    mean = labels.nanmean(dim=0)
    std = (labels - mean).square().nanmean(dim=0).sqrt()
    for name, value, spread in zip(targets, mean.tolist(), std.tolist(), strict=True):
        if math.isnan(value):
            raise ValueError(f"train: {name} has no number among the molecules trained on. Leave it out.")
        if spread == 0.0:
            raise ValueError(
                f"train: {name} is {value:g} wherever it is given, so nothing can be learned. Leave it out."
            )
    return mean, std


def _fit(
    result: TrainedGNN, split: dict[str, list[Data]], valid: Tensor, settings: Settings, progress: Callable[[str], None]
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
    best, weights = -math.inf, {}
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
        # If nothing can be measured, such as ranks of one class, the last epoch is kept.
        if quality >= best or math.isnan(quality):
            best = best if math.isnan(quality) else quality
            weights = {name: value.detach().clone() for name, value in net.state_dict().items()}
        progress(f"epoch {epoch + 1} of {settings.epochs}: loss {total:.4f}, {metric} of the validation {value:.4f}")
    net.load_state_dict(weights)


def _outputs(net: GNN, batch: Any) -> Tensor:
    return net(batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr)
