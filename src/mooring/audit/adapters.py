"""Adapters: one calling convention for aggregations, virtual nodes, layers and dense attention."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils import to_dense_batch

from mooring import zoo
from mooring.audit.card import first_line
from mooring.named import did_you_mean
from mooring.ops.checks import check_count, described

# Well above rounding, and well below the smallest effect measured in a broken module.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
PROBE_NODES = 5


@dataclass(frozen=True)
class Graphs:
    """Batch of graphs in PyG's flat layout.

    ``x`` is ``[nodes, channels]``, ``index`` the graph id of every node in any order; ``edge_index`` is ``[2, edges]``,
    and only layers read it. ``num_graphs`` includes graphs without nodes.
    """

    x: Tensor
    index: Tensor
    edge_index: Tensor
    num_graphs: int

    @property
    def num_nodes(self) -> int:
        return int(self.x.size(0))

    def with_features(self, x: Tensor) -> Graphs:
        """Return the same graphs with other node features."""
        return replace(self, x=x)

    def permute(self, order: Tensor) -> Graphs:
        """Return the same graphs with node ``order[i]`` moved to position ``i``."""
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel())
        return Graphs(self.x[order], self.index[order], place[self.edge_index], self.num_graphs)

    def replicate(self, times: int) -> Graphs:
        """Return rX: one graph of ``times`` disjoint copies of this graph, the first copy first."""
        assert self.num_graphs == 1, "only a single graph is replicated"
        shift = torch.arange(times).repeat_interleave(self.edge_index.size(1)) * self.num_nodes
        return single(self.x.repeat(times, 1), self.edge_index.repeat(1, times) + shift)


def single(x: Tensor, edge_index: Tensor | None = None) -> Graphs:
    """Return one graph; without ``edge_index`` its nodes are isolated."""
    edge_index = torch.empty(2, 0, dtype=torch.long) if edge_index is None else edge_index
    return Graphs(x, torch.zeros(x.size(0), dtype=torch.long), edge_index, 1)


def collate(graphs: Sequence[Graphs]) -> Graphs:
    """Return the graphs in one batch, in the given order; graphs without nodes keep their id."""
    index, edges, nodes, offset = [], [], 0, 0
    for graph in graphs:
        index.append(graph.index + offset)
        edges.append(graph.edge_index + nodes)
        nodes += graph.num_nodes
        offset += graph.num_graphs
    return Graphs(torch.cat([graph.x for graph in graphs]), torch.cat(index), torch.cat(edges, dim=1), offset)


def random_graph(generator: torch.Generator, nodes: int, channels: int, scale: float = 1.0) -> Graphs:
    """Return one graph with normal features on a ring with a few random chords, every edge in both directions."""
    x = scale * torch.randn(nodes, channels, generator=generator, dtype=torch.float64)
    if nodes < 3:
        return single(x)
    start = torch.arange(nodes)
    chords = torch.randint(nodes, (2, max(1, nodes // 3)), generator=generator)
    chords = chords[:, chords[0] != chords[1]]
    edges = torch.cat([torch.stack([start, (start + 1) % nodes]), chords], dim=1)
    return single(x, torch.cat([edges, edges.flip(0)], dim=1))


class OutputError(ValueError):
    """Error of a module that ran, but whose output cannot be measured."""


class Adapter:
    """A module behind one call: a batch of graphs in, one row per node or one row per graph out.

    The module, which may be a plain function, is copied, moved to the CPU (where the graphs are), put in eval mode and
    cast, so that the caller's module is unchanged.
    """

    def __init__(
        self, module: Callable[..., Any], kind: str, channels: int, dtype: torch.dtype = torch.float64
    ) -> None:
        self.module = copy.deepcopy(module)
        if isinstance(self.module, nn.Module):
            self.module = self.module.to("cpu", dtype).eval()
        self.kind = kind
        self.channels = channels
        self.dtype = dtype
        self.accepted = _parameters(self.module)
        rows = int(self(random_graph(torch.Generator().manual_seed(0), PROBE_NODES, channels)).size(0))
        if rows not in (1, PROBE_NODES):
            raise OutputError(
                f"audit: {self.name} gave {rows} rows for one graph of {PROBE_NODES} nodes; expected one row per node "
                "or one per graph. Wrap it so that it returns its node or graph features."
            )
        self.per_node = rows == PROBE_NODES

    @property
    def name(self) -> str:
        return getattr(self.module, "__name__", type(self.module).__name__)

    @property
    def tolerance(self) -> float:
        """Largest relative difference at which two values count as equal."""
        return TOLERANCE[self.dtype]

    def call(self, graphs: Graphs) -> Any:
        """Call the module in its convention."""
        return ADAPTERS[self.kind](self, graphs)

    def __call__(self, graphs: Graphs) -> Tensor:
        with default_dtype(self.dtype):
            out = self.call(graphs.with_features(graphs.x.to(self.dtype)))
        if isinstance(out, (tuple, list)):
            out = out[0]
        if not isinstance(out, Tensor):
            raise OutputError(
                f"audit: {self.name} returned {type(out).__name__}, expected a tensor, or a tuple that starts with one."
            )
        return out.flatten(1) if out.dim() > 1 else out.unsqueeze(-1)

    def rows(self, graphs: Graphs, graph: int) -> Tensor:
        """Return the output rows that belong to one graph of the batch."""
        out = self(graphs)
        return out[graphs.index == graph] if self.per_node else out[graph : graph + 1]

    def cast(self, dtype: torch.dtype) -> Adapter:
        """Return the same adapter over a copy of the module in another precision."""
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module)
        if isinstance(other.module, nn.Module):
            other.module = other.module.to(dtype)
        other.dtype = dtype
        return other


def call_aggregation(adapter: Adapter, graphs: Graphs) -> Any:
    """Call ``module(x, index, dim_size=graphs)``: PyG aggregations and readouts."""
    return adapter.module(graphs.x, graphs.index, dim_size=graphs.num_graphs)


def call_virtual_node(adapter: Adapter, graphs: Graphs) -> Any:
    """Call ``module(x, batch)``; the number of graphs is passed if the module accepts it."""
    size = {name: graphs.num_graphs for name in ("num_graphs", "batch_size", "size") if name in adapter.accepted}
    return adapter.module(graphs.x, graphs.index, **size)


def call_layer(adapter: Adapter, graphs: Graphs) -> Any:
    """Call ``module(x, edge_index, batch)``; ``batch`` is omitted if the layer does not accept it."""
    batch = {"batch": graphs.index} if "batch" in adapter.accepted else {}
    return adapter.module(graphs.x, graphs.edge_index, **batch)


def call_dense(adapter: Adapter, graphs: Graphs) -> Any:
    """Call ``module(x, mask)`` over padded graphs ``[graphs, nodes, channels]``, as in PyG's linear attentions."""
    order = graphs.index.argsort(stable=True)
    dense, mask = to_dense_batch(graphs.x[order], graphs.index[order], batch_size=graphs.num_graphs)
    out = adapter.module(dense, mask)
    out = out[0] if isinstance(out, tuple) else out
    return out[mask][order.argsort()]


ADAPTERS: dict[str, Callable[[Adapter, Graphs], Any]] = {
    "aggregation": call_aggregation,
    "virtual_node": call_virtual_node,
    "layer": call_layer,
    "dense": call_dense,
}


def detect_kind(module: Callable[..., Any]) -> str:
    """Return the calling convention of a module, from its type or the names of its arguments.

    >>> from torch_geometric.nn import GPSConv, SumAggregation
    >>> detect_kind(SumAggregation()), detect_kind(GPSConv(8, conv=None))
    ('aggregation', 'layer')
    """
    if isinstance(module, Aggregation):
        return "aggregation"
    accepted = _parameters(module)
    for name, kind in (("edge_index", "layer"), ("index", "aggregation"), ("batch", "virtual_node"), ("mask", "dense")):
        if name in accepted:
            return kind
    raise ValueError(
        f"audit: cannot infer the calling convention of {type(module).__name__} from its arguments "
        f"({', '.join(accepted) or 'none'}). Pass kind= one of {', '.join(map(repr, ADAPTERS))}."
    )


def adapt(module: Callable[..., Any], kind: str | None = None, channels: int = 16) -> Adapter:
    """Return the adapter of a module, in float64, or in float32 if the module raises in float64."""
    check_count("audit", "channels", channels)
    if not callable(module):
        similar = did_you_mean(module, zoo.names()) if isinstance(module, str) else None
        raise TypeError(
            f"audit: module is {described(module)} but a module or a function was expected. Build it first, e.g. "
            f"mooring.zoo.build({similar or 'anchored'!r}, {channels})."
        )
    module = getattr(module, "_orig_mod", module)  # unwrap torch.compile; a copy would be recompiled
    kind = kind or detect_kind(module)
    if kind not in ADAPTERS:
        raise ValueError(f"audit: kind={kind!r} is unknown; expected one of {', '.join(map(repr, ADAPTERS))}.")
    try:
        return Adapter(module, kind, channels)
    except OutputError:
        raise
    except Exception as refusal:
        try:
            return Adapter(module, kind, channels, torch.float32)
        except Exception:
            raise ValueError(
                f"audit: {type(module).__name__} raised on one graph of {PROBE_NODES} nodes with channels={channels}, "
                f"called as {kind!r}: {first_line(refusal)}. Pass the channels= it was built with, or another kind=."
            ) from refusal


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set torch's default dtype inside the block.

    Some modules call ``torch.ones(...)`` in their forward pass, which mixes the default precision with the input's.
    In half precision the default remains float32, as it does for a user.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype if dtype in TOLERANCE else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def relative_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference over the largest magnitude of ``b``; infinity if the ratio is NaN.

    >>> relative_difference(torch.ones(1), torch.full((1,), torch.inf))
    inf
    """
    if a.shape != b.shape:
        return math.inf
    if a.numel() == 0:
        return 0.0
    ratio = float((a - b).abs().max()) / max(float(b.abs().max()), 1e-30)
    return math.inf if math.isnan(ratio) else ratio


def _parameters(module: Callable[..., Any]) -> tuple[str, ...]:
    target = module.forward if isinstance(module, nn.Module) else module
    return tuple(inspect.signature(target).parameters)
