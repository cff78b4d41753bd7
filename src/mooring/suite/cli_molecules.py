"""The commands for a user's own molecules: train on a CSV, predict for another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mooring.suite.terminal import FittedTable, complain, console, parse_names, require_file, require_folder, working
from mooring.table import Column, Table

if TYPE_CHECKING:
    from mooring.suite.molecule_csv import Molecules

Smiles = Annotated[str, typer.Option(help="Column of the SMILES.")]
PREDICTED = "predictions.csv"


def train(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV with a header line.")],
    target: Annotated[str, typer.Option(help="Columns of the labels, comma-separated; 0 and 1 are classes.")],
    smiles: Smiles = "smiles",
    predict: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Also predict for the molecules of this CSV.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the molecules.")] = 50,
    channels: Annotated[int, typer.Option(min=4, help="Width of the network, a multiple of 4.")] = 64,
    layers: Annotated[int, typer.Option(min=1, help="Layers of message passing.")] = 4,
    slots: Annotated[int, typer.Option(min=1, help="Slots of the memory after each layer.")] = 8,
    learning_rate: Annotated[float, typer.Option(min=1e-8, help="Largest step size.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the molecules that are held out.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the model, its metrics and predictions.")] = Path("trained"),
) -> None:
    """Train on molecules of your own: a CSV of SMILES and labels in, a model and its metrics out.

    Lines that cannot be used are named. A tenth of the molecules selects the epoch and a tenth measures the result.
    """
    require_folder(out, "train: --out")
    with working("train: loading ...") as progress:
        from mooring.suite import molecule_csv, molecule_model

        targets = parse_names(target)
        if not targets or len(set(targets)) < len(targets):
            raise ValueError(f"train: --target is {target!r} but names of different columns were expected, e.g. logS.")
        molecules = molecule_csv.read_molecules(file, smiles, targets)
        tell(file, molecules)
        # Read before training, so that a mistake in it is not found at the end.
        others = None if predict is None else molecule_csv.read_molecules(predict, smiles)
        settings = molecule_model.Settings(channels, layers, slots, epochs, learning_rate, seed)
        trained = molecule_model.train(molecules, targets, settings, progress)
    trained.save(out)
    console.print(FittedTable(metrics_table(trained.kind, targets, trained.metrics)))
    console.print(f"model: {out}", highlight=False, markup=False, soft_wrap=True)
    if predict is not None and others is not None:
        tell(predict, others)
        molecule_csv.write_predictions(out / PREDICTED, others, targets, trained.predict(others.graphs))
        console.print(f"predictions: {out / PREDICTED}", highlight=False, markup=False, soft_wrap=True)


def predict(
    model: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder that `mooring train` wrote.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV with a header line.")],
    smiles: Smiles = "smiles",
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = Path(PREDICTED),
) -> None:
    """Predict for molecules with a model of `mooring train`."""
    require_file(out)
    with working("predict: loading ..."):
        from mooring.suite import molecule_csv, molecule_model

        trained = molecule_model.Trained.load(model)
        molecules = molecule_csv.read_molecules(file, smiles)
        tell(file, molecules)
        molecule_csv.write_predictions(out, molecules, trained.targets, trained.predict(molecules.graphs))
    console.print(f"predictions: {out}", highlight=False, markup=False, soft_wrap=True)


def tell(path: Path, molecules: Molecules) -> None:
    """Say how many molecules were read, and which lines were not used as they stand."""
    console.print(f"{path}: {len(molecules.graphs):,} molecules", highlight=False, markup=False)
    for problem in molecules.listed():
        complain(f"{path}, {problem}")


def metrics_table(kind: str, targets: list[str], metrics: dict) -> Table:
    """Return the metrics of the held-out molecules, one row per target."""
    names = list(metrics["test"])
    columns = [Column("target", left=True), *(Column(name.replace("_", " "), group="test") for name in names)]
    columns += [Column(name.replace("_", " "), group="validation") for name in names]
    rows = tuple(
        (target, *(_shown(metrics[split][name][target]) for split in ("test", "valid") for name in names))
        for target in targets
    )
    counts = metrics["molecules"]
    note = f"{kind}; trained on {counts['train']}, selected on {counts['valid']}, tested on {counts['test']} molecules"
    return Table("train", "held-out molecules", tuple(columns), rows, notes=(note,))


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
