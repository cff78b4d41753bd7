"""One number -> one hard input: a ragged batch with masks, weights and junk where nobody may look."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from support import NATIVE

NEVER = float("-inf")
DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16)
# (TILE, LARGE, SMALL_PER_TILE) of mooring.ops.tiles.layout: many tiles, padded blocks, runs, and as it is.
FINE_TILES = [(2, 3, 0), (7, 2, 1_000)]
# No tiles: the plain back end, with sums over graphs scattered, and with all graphs padded to the largest.
PLAIN = [(0, 0, 0), (0, 10**6, 0)]
TILES = [*PLAIN, (16, 8, 0), (16, 8, 1_000), (64, 16, 0), (8192, 256, 6), (8192, 1, 0), *NATIVE]
JUNK = ("ordinary", "huge", "nan", "inf")
OFFSETS = (0.0, 0.0, 3.0, -3.0, 120.0, -120.0, -800.0, 1e3, 1e4, -1e4, 1e30, -1e30)


@dataclass(frozen=True)
class Nodes:
    """A batch and what to differentiate of it.

    Args:
        x: ``[nodes, width]``. index: ``[nodes]`` graph ids in any order.
        log_weight, sources, targets: as in :class:`mooring.nn.SlotVirtualNode`.
        part: ``[nodes]``, which of three states a node is written to before they are merged.
        edges: ``[2, edges]``, none of them at a node that is left out.
        table: ``[graphs, width]``, what each graph holds for its nodes to read.
        node_slope, graph_slope: the loss is the sum of outputs times these, one row per node and graph.
    """

    x: Tensor
    index: Tensor
    num_graphs: int
    log_weight: Tensor | None
    sources: Tensor | None
    targets: Tensor | None
    part: Tensor
    edges: Tensor
    table: Tensor
    node_slope: Tensor
    graph_slope: Tensor

    @property
    def left_out(self) -> Tensor:
        """Nodes that do not write."""
        out = torch.zeros(len(self.x), dtype=torch.bool)
        if self.sources is not None:
            out = out | ~self.sources
        return out if self.log_weight is None else out | self.log_weight.isneginf()

    @property
    def absent(self) -> Tensor:
        """Nodes that neither write nor read."""
        return torch.zeros_like(self.left_out) if self.targets is None else self.left_out & ~self.targets


@dataclass(frozen=True)
class Shape:
    """What a subject asks of its input: widths, the largest log weight, and which arguments it takes."""

    width: int
    node_width: int
    graph_width: int
    table_width: int = 0
    heaviest: float = 1e30
    weights: bool = True
    masks: bool = True
    scales: tuple[float, ...] = (0.0, 1.0, 1.0, 1.0, 30.0, 3e3)
    scaled: int | None = None  # columns of x that the scale applies to
    # Whether a node that is left out may hold NaN; where a layer treats every node it would only meet itself.
    poison: bool = True


class Draw:
    """Everything random of one input."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.generator = torch.Generator().manual_seed(number)

    def pick(self, choices: Sequence):  # type: ignore[no-untyped-def]
        return self.random.choice(choices)

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def randn(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def mask(self, size: int, share: float) -> Tensor:
        return torch.rand(size, generator=self.generator) < share

    def order(self, size: int) -> Tensor:
        return torch.randperm(size, generator=self.generator)

    def sizes(self) -> list[int]:
        kind = self.random.random()
        if kind < 0.03:
            return [0] * self.random.randint(1, 3)
        if kind < 0.06:  # graphs with nodes among many without
            sizes = [0] * self.pick((12, 60, 400, 2001))
            for _ in range(self.random.randint(1, 5)):
                sizes[self.random.randrange(len(sizes))] = self.random.randint(1, 7)
            return sizes
        if kind < 0.45:
            return [self.random.randint(0, 7) for _ in range(self.random.randint(1, 5))]
        if kind < 0.70:
            return [self.random.randint(0, 70)]
        if kind < 0.95:
            return [self.random.randint(0, 40) for _ in range(self.random.randint(1, 4))]
        return [self.random.randint(60, 300), *(self.random.randint(0, 5) for _ in range(self.random.randint(0, 3)))]

    def tiles(self, num_nodes: int) -> tuple[int, int, int]:
        return self.pick(TILES if num_nodes > 40 else FINE_TILES + TILES)


def use_native_alone() -> None:
    """Draw the native back end for every input; raise RuntimeError if it is not installed."""
    if not NATIVE:
        raise RuntimeError("soak: mooring-native is not installed. Install it by `make native`.")
    TILES[:], FINE_TILES[:] = NATIVE, NATIVE


def batch(draw: Draw, shape: Shape, dtype: torch.dtype, sizes: Sequence[int], *, calm: bool = False) -> Nodes:
    """A batch of graphs of these sizes; ``calm`` ones hold ordinary numbers only."""
    graphs, count = len(sizes), sum(sizes)
    index = torch.repeat_interleave(torch.arange(graphs), torch.tensor(sizes, dtype=torch.long))
    if draw.often(0.6):
        index = index[draw.order(count)]
    x = draw.randn(count, shape.width)
    x[:, : shape.scaled] *= 1.0 if calm else draw.pick(shape.scales)
    sources = targets = None
    if shape.masks and draw.often(0.5):
        sources = draw.mask(count, draw.pick((0.0, 0.3, 0.7, 0.7)))
    if shape.masks and draw.often(0.4):
        targets = draw.mask(count, 0.6)
    log_weight = None
    if shape.weights and draw.often(0.7):
        log_weight = _log_weight(draw, index, 3.0 if calm else shape.heaviest).to(dtype)
        # The same numbers, with more digits than the features have.
        log_weight = log_weight.double() if draw.often(0.1) else log_weight
    nodes = Nodes(
        x=x.to(dtype),
        index=index,
        num_graphs=graphs,
        log_weight=log_weight,
        sources=sources,
        targets=targets,
        part=torch.randint(3, (count,), generator=draw.generator),
        edges=torch.zeros(2, 0, dtype=torch.long),
        table=draw.randn(graphs, shape.table_width).to(dtype),
        node_slope=draw.randn(count, shape.node_width),
        graph_slope=draw.randn(graphs, shape.graph_width),
    )
    # What a node that is left out gets back is its own affair.
    nodes = replace(nodes, node_slope=nodes.node_slope.masked_fill(nodes.left_out.unsqueeze(1), 0.0))
    return replace(nodes, edges=_edges(draw, nodes))


def _log_weight(draw: Draw, index: Tensor, heaviest: float) -> Tensor:
    count = index.numel()
    offset = min(draw.pick(OFFSETS), heaviest)
    weight = offset + draw.pick((0.0, 1.0, 1.0, 30.0)) * draw.randn(count)
    if draw.often(0.2):
        weight = torch.where(draw.mask(count, 0.5), weight, -1e30)
    weight = weight.clamp(max=heaviest)
    holes = draw.random.random()
    if holes < 0.3:
        weight = weight.masked_fill(draw.mask(count, draw.pick((0.3, 0.9))), NEVER)
    elif holes < 0.7 and count:
        start = draw.pick((0, 0, draw.random.randrange(count)))  # whole tiles, the first ones above all
        weight[start : start + draw.random.randint(0, count)] = NEVER
    elif holes < 0.8 and count:
        weight[index == index[0]] = NEVER  # a whole graph
    return weight


def _edges(draw: Draw, nodes: Nodes) -> Tensor:
    """About two edges per node, within graphs."""
    writers = (~nodes.left_out).nonzero().squeeze(1)
    if not len(writers):
        return nodes.edges
    ends = writers[torch.randint(len(writers), (2, 2 * len(writers)), generator=draw.generator)]
    return ends[:, nodes.index[ends[0]] == nodes.index[ends[1]]]


def with_junk(nodes: Nodes, shape: Shape, kind: str) -> Nodes:
    """Other features at the nodes that are left out: NaN and infinity only where they read nothing either."""
    kind = kind if shape.poison or kind in ("ordinary", "huge") else "huge"
    where = nodes.left_out if kind in ("ordinary", "huge") else nodes.absent
    junk = {"ordinary": 1.0, "huge": 1e4, "nan": float("nan"), "inf": float("inf")}[kind]
    return replace(nodes, x=torch.where(where.unsqueeze(1), junk, nodes.x).to(nodes.x.dtype))


def joined(nodes: Nodes, mates: Nodes) -> Nodes:
    """One batch of both, the mates last and without a share in the loss."""
    count = nodes.x.size(0)

    def both(name: str, fill: float | bool) -> Tensor | None:
        one, other = getattr(nodes, name), getattr(mates, name)
        if one is None and other is None:
            return None
        dtype = (other if one is None else one).dtype
        filled = [
            torch.full((len(n.x),), fill, dtype=dtype) if t is None else t for t, n in ((one, nodes), (other, mates))
        ]
        return torch.cat(filled)

    return Nodes(
        x=torch.cat([nodes.x, mates.x]),
        index=torch.cat([nodes.index, mates.index + nodes.num_graphs]),
        num_graphs=nodes.num_graphs + mates.num_graphs,
        log_weight=both("log_weight", 0.0),
        sources=both("sources", True),
        targets=both("targets", True),
        part=torch.cat([nodes.part, mates.part]),
        edges=torch.cat([nodes.edges, mates.edges + count], dim=1),
        table=torch.cat([nodes.table, mates.table]),
        node_slope=torch.cat([nodes.node_slope, torch.zeros_like(mates.node_slope)]),
        graph_slope=torch.cat([nodes.graph_slope, torch.zeros_like(mates.graph_slope)]),
    )


def rearranged(nodes: Nodes, order: Tensor, label: Tensor) -> Nodes:
    """Node ``order[i]`` in place i, graph g under the name ``label[g]``."""
    place, graphs = order.argsort(), label.argsort()

    def moved(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor[order]

    return Nodes(
        x=nodes.x[order],
        index=label[nodes.index[order]],
        num_graphs=nodes.num_graphs,
        log_weight=moved(nodes.log_weight),
        sources=moved(nodes.sources),
        targets=moved(nodes.targets),
        part=nodes.part[order],
        edges=place[nodes.edges],
        table=nodes.table[graphs],
        node_slope=nodes.node_slope[order],
        graph_slope=nodes.graph_slope[graphs],
    )


def alone(nodes: Nodes, graph: int) -> tuple[Nodes, Tensor]:
    """One graph by itself, and where its nodes were."""
    rows = (nodes.index == graph).nonzero().squeeze(1)
    place = torch.zeros_like(nodes.index)
    place[rows] = torch.arange(len(rows))
    mine = nodes.index[nodes.edges[0]] == graph
    kept = {name: getattr(nodes, name) for name in ("log_weight", "sources", "targets")}
    single = replace(
        nodes,
        x=nodes.x[rows],
        index=torch.zeros_like(rows),
        num_graphs=1,
        part=nodes.part[rows],
        edges=place[nodes.edges[:, mine]],
        table=nodes.table[graph : graph + 1],
        node_slope=nodes.node_slope[rows],
        graph_slope=nodes.graph_slope[graph : graph + 1],
        **{name: None if given is None else given[rows] for name, given in kept.items()},
    )
    return single, rows
