"""PyG data -> the graphs that are drawn: nodes, edges, positions, values per node, symbols and bonds of molecules."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from mooring.look.layout import layout, neighbourhood

# More columns than this do not fit the line that describes a node.
MOST_FACTS = 6
SYMBOLS = (  # noqa: SIM905 (a literal would be a page long)
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe"
).split()
# OGB's types of a bond by rdkit's names, and their orders; one and a half is aromatic.
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "UNSPECIFIED")
ORDERS = (1.0, 2.0, 3.0, 1.5, 1.0)
# The number of integer features of an atom and of a bond in OGB's molecules.
ATOM_FEATURES, BOND_FEATURES = 9, 3
LARGEST = 118
STRUCTURE = {"batch", "ptr", "x", "pos", "edge_index", "edge_attr", "node_type"}


@dataclass(frozen=True)
class Drawn:
    """One graph of a batch as it is drawn.

    Args:
        nodes: its nodes, numbered as in the batch; fewer than ``total`` if the graph is too large.
        ids: their numbers in the graph itself.
        total: number of nodes of the whole graph.
        edges: each edge once, between positions in ``nodes``.
        position: coordinates of the nodes.
        symbols, orders: symbols of the atoms and orders of the bonds (one per edge) of a molecule.
        facts: values per node, by name.
        note: how the drawing differs from the graph; empty if it does not.
    """

    nodes: Int[Tensor, " nodes"]
    ids: Int[Tensor, " nodes"]
    total: int
    edges: Int[Tensor, "2 edges"]
    position: Float[Tensor, "nodes 2"]
    symbols: list[str] = field(default_factory=list)
    orders: list[float] = field(default_factory=list)
    facts: dict[str, list[Any]] = field(default_factory=dict)
    note: str = ""


class Molecule(NamedTuple):
    """Positions of the atoms (None without rdkit), their symbols, and the order of each bond by its two atoms."""

    position: Float[Tensor, "nodes 2"] | None
    symbols: list[str]
    orders: dict[tuple[int, int], float]


def as_batch(data: Any) -> Any:
    """Return one PyG object for data, a batch, a list of data, or an object with ``to_data()``."""
    if isinstance(data, Sequence) and data and all(isinstance(graph, (Data, HeteroData)) for graph in data):
        return Batch.from_data_list(list(data))
    if isinstance(data, (Data, HeteroData)):
        return data
    if callable(getattr(data, "to_data", None)):
        return data.to_data()
    raise TypeError(
        f"look: data is {type(data).__name__}, expected torch_geometric Data, HeteroData, a Batch or a list of Data. "
        "Wrap features and edges, e.g. Data(x=x, edge_index=edge_index)."
    )


def draw(data: Any, chosen: Sequence[int], max_nodes: int) -> list[Drawn]:
    """Return the chosen graphs of a batch, each with at most ``max_nodes`` nodes."""
    flat = data if not isinstance(data, HeteroData) else _flat(data)
    count = int(flat.num_nodes)
    batch = flat.get("batch")
    batch = torch.zeros(count, dtype=torch.long) if batch is None else batch.cpu()
    edges = flat.get("edge_index")
    edges = torch.empty(2, 0, dtype=torch.long) if edges is None else edges.cpu()
    return [_draw(flat, graph, batch, edges, max_nodes) for graph in chosen]


def num_graphs(data: Any) -> int:
    """Return the number of graphs in a batch; one if it has no graph ids."""
    if isinstance(data, HeteroData):
        ids = [store.batch for store in data.node_stores if "batch" in store]
        return max((int(index.max()) + 1 for index in ids if index.numel()), default=1)
    if isinstance(data, Batch):
        return int(data.num_graphs)
    batch = data.get("batch")
    return 1 if batch is None or batch.numel() == 0 else int(batch.max()) + 1


def _draw(data: Any, graph: int, batch: Tensor, edges: Tensor, max_nodes: int) -> Drawn:
    members = (batch == graph).nonzero().squeeze(1)
    total = len(members)
    place = torch.full_like(batch, -1)
    place[members] = torch.arange(total)
    inside = batch[edges[0]] == graph
    ends = place[edges[:, inside]]
    molecule, ids, note, drawn = None, torch.arange(total), "", ends
    if total > max_nodes:
        ids = neighbourhood(total, ends, max_nodes)
        drawn = torch.full((total,), -1).index_copy(0, ids, torch.arange(len(ids)))[ends]
        note = (
            f"{len(ids):,} of {total:,} nodes are drawn, those nearest to node 0. Slots and weights are of the whole "
            "graph."
        )
    else:
        molecule = _molecule(data, graph, members, ends, inside)
    drawn = drawn[:, (drawn >= 0).all(0) & (drawn[0] != drawn[1])].sort(dim=0).values.unique(dim=1)
    nodes = members[ids]
    position = _position(data, nodes)
    if position is None and molecule is not None:
        position = molecule.position
    position = _unit(layout(len(nodes), drawn) if position is None else position)
    symbols = [] if molecule is None else molecule.symbols
    orders = [] if molecule is None else [molecule.orders.get((low, high), 1.0) for low, high in drawn.t().tolist()]
    return Drawn(nodes, ids, total, drawn, position, symbols, orders, _facts(data, nodes, len(batch)), note)


def _molecule(data: Any, graph: int, members: Tensor, edges: Tensor, inside: Tensor) -> Molecule | None:
    """Return the graph as a molecule, from its SMILES string or from OGB's features; None if it has neither."""
    smiles, x, edge_attr = data.get("smiles"), data.get("x"), data.get("edge_attr")
    if isinstance(smiles, (list, tuple)) and graph < len(smiles):
        smiles = smiles[graph]
    if smiles is None and (not isinstance(x, Tensor) or x.is_floating_point() or edge_attr is None):
        return None
    if smiles is not None:
        return depiction(smiles, len(members))
    return from_features(x.cpu()[members], edges, edge_attr.cpu()[inside])


def _position(data: Any, nodes: Tensor) -> Tensor | None:
    """Return ``data.pos`` in two dimensions; None if it is missing, one-dimensional or not finite."""
    x = data.get("pos")
    if x is None or x.dim() != 2 or x.size(1) < 2 or not bool(x.isfinite().all()):
        return None
    x = x.cpu().float()[nodes]
    if x.size(1) > 2:
        # Project along the direction in which the nodes spread least.
        x = x - x.mean(0)
        x = x @ torch.linalg.svd(x, full_matrices=False)[2][:2].t()
    return x * torch.tensor([1.0, -1.0])


def _unit(x: Float[Tensor, "nodes 2"]) -> Float[Tensor, "nodes 2"]:
    """Scale the longer side of a drawing to [0, 1] and centre the shorter."""
    if not len(x):
        return x
    low, high = x.amin(0), x.amax(0)
    side = (high - low).max().clamp(min=1e-9)
    return (x - 0.5 * (low + high)) / side + 0.5


def _facts(data: Any, nodes: Tensor, count: int) -> dict[str, list[Any]]:
    """Return the values per node that the data has under a name, to be shown beside a node."""
    facts: dict[str, list[Any]] = {}
    if "type_names" in data:
        facts["type"] = [data.type_names[kind] for kind in data.node_type[nodes].tolist()]
    for name, value in data.to_dict().items():
        if name in STRUCTURE or not isinstance(value, Tensor) or value.is_complex():
            continue
        if tuple(value.shape) in ((count,), (count, 1)):
            facts[name] = [_fact(number) for number in value.detach().cpu().reshape(count)[nodes].tolist()]
    return dict(list(facts.items())[:MOST_FACTS])


def _fact(value: float) -> float | str:
    """Round to four digits; NaN and infinity become strings (JSON has neither)."""
    if not isinstance(value, float):
        return value
    return round(value, 4) if math.isfinite(value) else str(value)


def _flat(data: HeteroData) -> Data:
    """Return all node types one after the other, and all edges."""
    names = data.node_types
    counts = [int(data[name].num_nodes) for name in names]
    start = dict(zip(names, torch.tensor([0, *counts[:-1]]).cumsum(0).tolist(), strict=True))
    edges = [
        store.edge_index.cpu() + torch.tensor([[start[sender]], [start[receiver]]])
        for (sender, _, receiver), store in data.edge_items()
        if "edge_index" in store
    ]
    batches = [data[name].get("batch") for name in names]
    flat = Data(num_nodes=sum(counts), edge_index=torch.cat(edges, dim=1) if edges else None)
    if all(batch is not None for batch in batches):
        flat.batch = torch.cat([batch.cpu() for batch in batches])
    flat.node_type = torch.repeat_interleave(torch.arange(len(names)), torch.tensor(counts))
    flat.type_names = list(names)
    return flat


def atom_symbol(kind: int) -> str:
    """Return the symbol of an atom from OGB's first feature, the atomic number minus one.

    >>> atom_symbol(5), atom_symbol(91)
    ('C', '92')
    """
    return SYMBOLS[kind] if kind < len(SYMBOLS) else str(kind + 1)


def depiction(smiles: Any, num_nodes: int) -> Molecule | None:
    """Return a SMILES string as a molecule.

    Returns None without rdkit, or unless the number of nodes is that of its heavy atoms, or of all its atoms.
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
    return Molecule(_depicted(molecule), [atom.GetSymbol() for atom in molecule.GetAtoms()], orders)


def from_features(x: Any, edges: Tensor, edge_attr: Any) -> Molecule | None:
    """Return the molecule of OGB's integer features, or None if the features are others.

    Args:
        x: nine features of each atom.
        edges: positions of the two atoms of each bond.
        edge_attr: three features of each bond, in both directions.
    """
    for values, width in ((x, ATOM_FEATURES), (edge_attr, BOND_FEATURES)):
        if not isinstance(values, Tensor) or values.dim() != 2 or values.size(1) != width or values.is_floating_point():
            return None
    kinds, types = x[:, 0].tolist(), edge_attr[:, 0].tolist()
    if not kinds or not 0 <= min(kinds) <= max(kinds) <= LARGEST or any(not 0 <= kind < len(ORDERS) for kind in types):
        return None
    bonds = {_ends(first, last): kind for (first, last), kind in zip(edges.t().tolist(), types, strict=True)}
    position = rdkit_positions(kinds, list(bonds), list(bonds.values()))
    orders = {ends: ORDERS[kind] for ends, kind in bonds.items()}
    return Molecule(position, [atom_symbol(kind) for kind in kinds], orders)


def rdkit_positions(
    kinds: Sequence[int], bonds: Sequence[Sequence[int]], types: Sequence[int]
) -> Float[Tensor, "nodes 2"] | None:
    """Return positions by rdkit, from OGB's first feature of atoms and of bonds; None without rdkit."""
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
    return _depicted(molecule)


def _depicted(molecule: Any) -> Float[Tensor, "nodes 2"]:
    importlib.import_module("rdkit.Chem.rdDepictor").Compute2DCoords(molecule)
    flat = torch.tensor(molecule.GetConformer().GetPositions()[:, :2].tolist())
    return flat * torch.tensor([1.0, -1.0])


def _ends(first: int, last: int) -> tuple[int, int]:
    return min(first, last), max(first, last)
