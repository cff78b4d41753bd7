"""A table of molecules: SMILES and labels in named columns, and every line that could not be used as it is."""

from __future__ import annotations

import csv
import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from mooring.named import suggest

# Spellings of a missing value.
MISSING = {"", "na", "n/a", "nan", "none", "null", "-"}
MOST_LISTED = 10


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
