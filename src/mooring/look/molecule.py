"""A molecule as a chemist draws it: symbols and bond orders, and positions where rdkit is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

SYMBOLS = (  # noqa: SIM905 (a literal would be a page long)
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe"
).split()
# OGB's types of a bond by rdkit's names, and how many lines each is drawn with; one and a half is aromatic.
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "UNSPECIFIED")
ORDERS = (1.0, 2.0, 3.0, 1.5, 1.0)
# The number of integer features of an atom and of a bond in OGB's molecules.
ATOM_FEATURES, BOND_FEATURES = 9, 3
LARGEST = 118


class Molecule(NamedTuple):
    """Positions of the atoms (None without rdkit), their symbols, and the order of each bond by its two atoms."""

    position: Float[Tensor, "nodes 2"] | None
    symbols: list[str]
    orders: dict[tuple[int, int], float]


def symbol(kind: int) -> str:
    """The symbol of an atom from OGB's first feature, the atomic number minus one.

    >>> symbol(5), symbol(91)
    ('C', '92')
    """
    return SYMBOLS[kind] if kind < len(SYMBOLS) else str(kind + 1)


def depiction(smiles: Any, num_nodes: int) -> Molecule | None:
    """A SMILES string as a molecule.

    None without rdkit, or where the string is no molecule with as many heavy atoms as the graph has nodes, or with as
    many atoms once its hydrogens are written out.
    """
    if not isinstance(smiles, str) or importlib.util.find_spec("rdkit") is None:
        return None
    chem = importlib.import_module("rdkit.Chem")
    importlib.import_module("rdkit.RDLogger").DisableLog("rdApp.*")
    molecule = chem.MolFromSmiles(smiles)
    if molecule is not None and molecule.GetNumAtoms() != num_nodes:
        molecule = chem.AddHs(molecule)
    if molecule is None or molecule.GetNumAtoms() != num_nodes:
        return None
    orders = {
        _ends(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()): bond.GetBondTypeAsDouble() for bond in molecule.GetBonds()
    }
    return Molecule(_drawn(molecule), [atom.GetSymbol() for atom in molecule.GetAtoms()], orders)


def from_features(x: Any, edges: Tensor, edge_attr: Any) -> Molecule | None:
    """A molecule in OGB's integer features, None where the features are others.

    Args:
        x: nine features of each atom. edge_attr: three of each bond, in both directions.
        edges: places of the two atoms of each bond.
    """
    for values, width in ((x, ATOM_FEATURES), (edge_attr, BOND_FEATURES)):
        if not isinstance(values, Tensor) or values.dim() != 2 or values.size(1) != width or values.is_floating_point():
            return None
    kinds, types = x[:, 0].tolist(), edge_attr[:, 0].tolist()
    if not kinds or not 0 <= min(kinds) <= max(kinds) <= LARGEST or any(not 0 <= kind < len(ORDERS) for kind in types):
        return None
    bonds = {_ends(first, last): kind for (first, last), kind in zip(edges.t().tolist(), types, strict=True)}
    position = positions(kinds, list(bonds), list(bonds.values()))
    return Molecule(position, [symbol(kind) for kind in kinds], {ends: ORDERS[kind] for ends, kind in bonds.items()})


def positions(
    kinds: Sequence[int], bonds: Sequence[Sequence[int]], types: Sequence[int]
) -> Float[Tensor, "nodes 2"] | None:
    """Positions of atoms by rdkit, from OGB's first feature of atoms and of bonds; None without rdkit."""
    if importlib.util.find_spec("rdkit") is None:
        return None
    chem = importlib.import_module("rdkit.Chem")
    molecule = chem.RWMol()
    for kind in kinds:
        # Only positions are needed, so an unknown element is drawn as a dummy atom.
        molecule.AddAtom(chem.Atom(kind + 1 if kind < LARGEST else 0))
    for (first, last), kind in zip(bonds, types, strict=True):
        molecule.AddBond(first, last, getattr(chem.BondType, BOND_TYPES[min(kind, len(BOND_TYPES) - 1)]))
    molecule.UpdatePropertyCache(strict=False)
    chem.GetSymmSSSR(molecule)
    return _drawn(molecule)


def _drawn(molecule: Any) -> Float[Tensor, "nodes 2"]:
    importlib.import_module("rdkit.Chem.rdDepictor").Compute2DCoords(molecule)
    flat = torch.tensor(molecule.GetConformer().GetPositions()[:, :2].tolist())
    return flat * torch.tensor([1.0, -1.0])


def _ends(first: int, last: int) -> tuple[int, int]:
    return min(first, last), max(first, last)
