"""PyG data -> the graphs that are drawn: nodes, edges, positions, and what is known about each node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from mooring.look.layout import layout

# More columns than this do not fit the line that describes a node.
MOST_FACTS = 6
STRUCTURE = {"batch", "ptr", "x", "pos", "edge_index", "edge_attr", "node_type"}


@dataclass(frozen=True)
class Drawn:
    """One graph of a batch as it is drawn.

    Args:
        nodes: its nodes, numbered as in the batch; fewer than ``total`` where the graph is too large.
        ids: their numbers in the graph itself.
        total: number of nodes of the whole graph.
        edges: each edge once, between places in ``nodes``.
        position: where they are drawn.
        symbols: of the atoms, for a molecule.
        orders: of the bonds, one per edge, for a molecule.
        facts: values per node, by name.
        note: how the drawing differs from the graph; empty where it does not.
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


def as_batch(data: Any) -> Any:
    """One PyG object for whatever was given: data, a batch, a list of data, or an object with ``to_data()``."""
    if isinstance(data, Sequence) and data and all(isinstance(one, (Data, HeteroData)) for one in data):
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
    """The chosen graphs of a batch, each with at most ``max_nodes`` nodes."""
    flat = data if not isinstance(data, HeteroData) else _flat(data)
    count = int(flat.num_nodes)
    batch = flat.get("batch")
    batch = torch.zeros(count, dtype=torch.long) if batch is None else batch.cpu()
    edges = flat.get("edge_index")
    edges = torch.empty(2, 0, dtype=torch.long) if edges is None else edges.cpu()
    return [_draw(flat, graph, batch, edges, max_nodes) for graph in chosen]


def num_graphs(data: Any) -> int:
    """How many graphs a batch has; one where it has no graph ids."""
    if isinstance(data, HeteroData):
        ids = [store.batch for store in data.node_stores if "batch" in store]
        return max((int(one.max()) + 1 for one in ids if one.numel()), default=1)
    if isinstance(data, Batch):
        return int(data.num_graphs)
    batch = data.get("batch")
    return 1 if batch is None or batch.numel() == 0 else int(batch.max()) + 1


def _draw(data: Any, graph: int, batch: Tensor, edges: Tensor, max_nodes: int) -> Drawn:
    members = (batch == graph).nonzero().squeeze(1)
    place = torch.full_like(batch, -1)
    place[members] = torch.arange(len(members))
    mine = batch[edges[0]] == graph
    own = ends = place[edges[:, mine]]
    total, ids, note = len(members), torch.arange(len(members)), ""
    if total > max_nodes:
        ids = neighbourhood(total, own, max_nodes)
        inside = torch.full((total,), -1)
        inside[ids] = torch.arange(len(ids))
        own = inside[own]
        note = (
            f"{len(ids):,} of {total:,} nodes are drawn, those nearest to node 0. Slots and weights are of the whole "
            "graph."
        )
    own = own[:, (own >= 0).all(0) & (own[0] != own[1])].sort(dim=0).values.unique(dim=1)
    nodes = members[ids]
    found = None if note else _molecule(data, graph, members, ends, mine)
    position = None if found is None or _has_positions(data) else found.position
    position = _position(data, nodes, own) if position is None else position
    symbols = [] if found is None else found.symbols
    orders = [] if found is None else [found.orders.get((first, last), 1.0) for first, last in own.t().tolist()]
    return Drawn(nodes, ids, total, own, _unit(position), symbols, orders, _facts(data, nodes, len(batch)), note)


def _molecule(data: Any, graph: int, members: Tensor, edges: Tensor, mine: Tensor) -> Any:
    """The graph as a molecule, from its SMILES string or from OGB's features; None if it has neither."""
    smiles, x, edge_attr = _smiles(data, graph), data.get("x"), data.get("edge_attr")
    if smiles is None and (not isinstance(x, Tensor) or x.is_floating_point() or edge_attr is None):
        return None
    # Needed for molecules only.
    from mooring.look.molecule import depiction, from_features

    if smiles is not None:
        return depiction(smiles, len(members))
    return from_features(x.cpu()[members], edges, edge_attr.cpu()[mine])


def neighbourhood(num_nodes: int, edge_index: Int[Tensor, "2 edges"], size: int) -> Int[Tensor, " size"]:
    """The ``size`` nodes nearest to node 0; where its part of the graph is smaller, the next part follows."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    order = both[0].argsort(stable=True)
    start = torch.zeros(num_nodes + 1, dtype=torch.long)
    start[1:] = torch.bincount(both[0], minlength=num_nodes).cumsum(0)
    neighbour = both[1][order]
    seen = torch.zeros(num_nodes, dtype=torch.bool)
    found: list[int] = []
    first = 0
    while len(found) < size:
        while seen[first]:
            first += 1
        seen[first] = True
        queue = [first]
        while queue and len(found) < size:
            found.append(queue.pop(0))
            new = neighbour[start[found[-1]] : start[found[-1] + 1]].unique()
            new = new[~seen[new]][: size - len(found)]
            seen[new] = True
            queue += new.tolist()
    return torch.tensor(sorted(found))


def _has_positions(data: Any) -> bool:
    given = data.get("pos")
    return given is not None and given.dim() == 2 and given.size(1) >= 2 and bool(given.isfinite().all())


def _position(data: Any, nodes: Tensor, edges: Tensor) -> Tensor:
    if not _has_positions(data):
        return layout(len(nodes), edges)
    x = data.pos.cpu().float()[nodes]
    if x.size(1) > 2:
        # Seen along the direction in which the nodes spread least.
        x = x - x.mean(0)
        x = x @ torch.linalg.svd(x, full_matrices=False)[2][:2].t()
    return x * torch.tensor([1.0, -1.0])


def _unit(x: Float[Tensor, "nodes 2"]) -> Float[Tensor, "nodes 2"]:
    """The same drawing with its longer side from zero to one, and its shorter side centred."""
    if not len(x):
        return x
    low, high = x.amin(0), x.amax(0)
    side = (high - low).max().clamp(min=1e-9)
    return (x - 0.5 * (low + high)) / side + 0.5


def _smiles(data: Any, graph: int) -> Any:
    given = data.get("smiles")
    return given[graph] if isinstance(given, (list, tuple)) and graph < len(given) else given


def _facts(data: Any, nodes: Tensor, count: int) -> dict[str, list[Any]]:
    """One number per node under a name is worth a word when the node is looked at."""
    found: dict[str, list[Any]] = {}
    if "type_names" in data:
        found["type"] = [data.type_names[kind] for kind in data.node_type[nodes].tolist()]
    for name, value in data.to_dict().items():
        if name in STRUCTURE or not isinstance(value, Tensor) or tuple(value.shape) not in ((count,), (count, 1)):
            continue
        if value.is_complex():
            continue
        found[name] = [_fact(one) for one in value.detach().cpu().reshape(count)[nodes].tolist()]
    return dict(list(found.items())[:MOST_FACTS])


def _fact(value: float) -> float | str:
    """To four digits; in letters what is no number, which JSON does not know."""
    if not isinstance(value, float):
        return value
    return round(value, 4) if math.isfinite(value) else str(value)


def _flat(data: HeteroData) -> Data:
    """All node types one after the other, and all edges."""
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
    if all(one is not None for one in batches):
        flat.batch = torch.cat([one.cpu() for one in batches])
    flat.node_type = torch.repeat_interleave(torch.arange(len(names)), torch.tensor(counts))
    flat.type_names = list(names)
    return flat
