"""A molecule as a chemist draws it, where rdkit is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def depiction(smiles: Any, num_nodes: int) -> tuple[Float[Tensor, "nodes 2"], list[str]] | None:
    """Positions and symbols of the atoms of a SMILES string.

    None without rdkit, or where the string is no molecule with as many heavy atoms as the graph has nodes, or with as
    many atoms once its hydrogens are written out.
    """
    if not isinstance(smiles, str) or importlib.util.find_spec("rdkit") is None:
        return None
    chem = importlib.import_module("rdkit.Chem")
    draw = importlib.import_module("rdkit.Chem.rdDepictor")
    log = importlib.import_module("rdkit.RDLogger")
    log.DisableLog("rdApp.*")
    molecule = chem.MolFromSmiles(smiles)
    if molecule is not None and molecule.GetNumAtoms() != num_nodes:
        molecule = chem.AddHs(molecule)
    if molecule is None or molecule.GetNumAtoms() != num_nodes:
        return None
    draw.Compute2DCoords(molecule)
    flat = torch.tensor(molecule.GetConformer().GetPositions()[:, :2].tolist())
    return flat * torch.tensor([1.0, -1.0]), [atom.GetSymbol() for atom in molecule.GetAtoms()]
