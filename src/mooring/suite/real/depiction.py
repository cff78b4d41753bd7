"""Where the atoms of a packed molecule are drawn, and what they are called."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mooring.look.layout import layout

SYMBOLS = (  # noqa: SIM905 (a literal would be a page long)
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe"
).split()
# OGB's types of a bond, by rdkit's names.
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "UNSPECIFIED")


def symbols(x: NDArray[np.uint8]) -> list[str]:
    """Symbols of atoms by OGB's features, whose first is the atomic number less one.

    >>> symbols(np.array([[5, 0], [16, 0], [91, 0]], dtype=np.uint8))
    ['C', 'Cl', '92']
    """
    return [SYMBOLS[kind] if kind < len(SYMBOLS) else str(kind + 1) for kind in x[:, 0].tolist()]


def positions(x: NDArray[np.uint8], edge: NDArray, edge_attr: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Positions of the atoms: as a chemist draws them where rdkit is installed, else a layout of the graph.

    Args:
        x, edge, edge_attr: one molecule in OGB's features, each bond once.
    """
    found = _by_rdkit(x, edge, edge_attr) if importlib.util.find_spec("rdkit") else None
    if found is not None:
        return found
    index = torch.from_numpy(edge.astype(np.int64).T.copy())
    return layout(len(x), index).double().numpy()


def _by_rdkit(x: NDArray[np.uint8], edge: NDArray, edge_attr: NDArray[np.uint8]) -> NDArray[np.float64] | None:
    chem: Any = importlib.import_module("rdkit.Chem")
    draw: Any = importlib.import_module("rdkit.Chem.rdDepictor")
    molecule = chem.RWMol()
    for kind in x[:, 0].tolist():
        # Places are wanted and no chemistry: an unknown element is drawn as a dummy.
        molecule.AddAtom(chem.Atom(kind + 1 if kind < 118 else 0))
    for (one, other), kind in zip(edge.tolist(), edge_attr[:, 0].tolist(), strict=True):
        molecule.AddBond(one, other, getattr(chem.BondType, BOND_TYPES[min(kind, len(BOND_TYPES) - 1)]))
    molecule.UpdatePropertyCache(strict=False)
    chem.GetSymmSSSR(molecule)
    draw.Compute2DCoords(molecule)
    return np.asarray(molecule.GetConformer().GetPositions())[:, :2]
