"""What is fed with inputs: the ops and every public module, each as a function of one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from inputs import NEVER, Draw, Nodes, Shape
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from mooring import ops
from mooring.nn import SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from mooring.ops import SlotState, reference

# Heads divide channels; everything else is a prime of its own.
CHANNELS, SLOTS, HEADS, DIM, VDIM, ADDRESS = 10, 3, 2, 5, 7, 11
STATE_WIDTH = SLOTS * HEADS * (VDIM + 1)
TABLE_WIDTH = SLOTS * HEADS * (DIM + VDIM)
OP_SCALES = (0.0, 1.0, 1.0, 30.0, 1e4)
Rows = tuple[Tensor | None, Tensor | None]


@dataclass(frozen=True)
class Subject:
    """A function of a batch.

    Args:
        run: parameters and a batch -> rows of nodes and rows of graphs, either of them absent.
        is_op: statistics stay in float32 for half inputs, so that bounds need not follow the inputs' dtype.
        counts: what the slots hold grows with the mass.
        untouched: what a node that is no target has to get: the ``"same"`` features or ``"zero"``; None where it is
            changed by something else as well.
    """

    name: str
    shape: Shape
    parameters: tuple[Tensor, ...]
    run: Callable[[tuple[Tensor, ...], Nodes], Rows]
    is_op: bool = False
    counts: bool = False
    untouched: str | None = None


def keys_and_values(x: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys and values of each node, side by side in ``x``."""
    key, value = x.split([heads * DIM, heads * VDIM], dim=1)
    return key.unflatten(1, (heads, DIM)), value.unflatten(1, (heads, VDIM))


def _write(heads: int) -> Callable[[tuple[Tensor, ...], Nodes], Rows]:
    def run(parameters: tuple[Tensor, ...], nodes: Nodes) -> Rows:
        return None, _flat(_state(parameters[0], nodes, nodes.sources, heads))

    return run


def _merge(parameters: tuple[Tensor, ...], nodes: Nodes) -> Rows:
    everyone = torch.ones_like(nodes.part, dtype=torch.bool) if nodes.sources is None else nodes.sources
    parts = [_state(parameters[0], nodes, everyone & (nodes.part == part), HEADS) for part in range(3)]
    return None, _flat(ops.merge(*parts))


def _state(query: Tensor, nodes: Nodes, where: Tensor | None, heads: int) -> SlotState:
    key, value = keys_and_values(nodes.x, heads)
    index = nodes.index if nodes.num_graphs != 1 else None
    return ops.write(query, key, value, index, num_graphs=nodes.num_graphs, log_weight=nodes.log_weight, where=where)


def _flat(state: SlotState) -> Tensor:
    return torch.cat([state.content.flatten(1), state.log_mass.flatten(1)], dim=1)


def _read(parameters: tuple[Tensor, ...], nodes: Nodes) -> Rows:
    key, value = nodes.table.split([SLOTS * HEADS * DIM, SLOTS * HEADS * VDIM], dim=1)
    key, value = key.unflatten(1, (SLOTS, HEADS, DIM)), value.unflatten(1, (SLOTS, HEADS, VDIM))
    query = nodes.x.unflatten(1, (HEADS, DIM))
    return ops.read(query, key, value, nodes.index, where=nodes.targets).flatten(1), None


def _of_module(module: nn.Module, call: Callable[[nn.Module, Nodes], Rows]) -> Callable[..., Rows]:
    names = [name.rpartition(".") for name, _ in module.named_parameters()]
    places = [(module.get_submodule(owner), name) for owner, _, name in names]

    def run(parameters: tuple[Tensor, ...], nodes: Nodes) -> Rows:
        for (owner, name), parameter in zip(places, parameters, strict=True):
            owner._parameters[name] = parameter  # type: ignore[assignment]
        return call(module, nodes)

    return run


def _memory(nodes: Nodes) -> dict[str, Any]:
    return {
        "sources": nodes.sources,
        "targets": nodes.targets,
        "log_weight": nodes.log_weight,
        "num_graphs": nodes.num_graphs,
    }


def _virtual_node(module: nn.Module, nodes: Nodes) -> Rows:
    x, given = nodes.x, _memory(nodes)
    if getattr(module, "address_channels", None):
        x, given["address"] = nodes.x.split([CHANNELS, ADDRESS], dim=1)
    return module(x, nodes.index if nodes.num_graphs != 1 else None, **given), None


def _aggregation(module: nn.Module, nodes: Nodes) -> Rows:
    return None, module(nodes.x, nodes.index, dim_size=nodes.num_graphs)


def _conv(module: nn.Module, nodes: Nodes) -> Rows:
    return module(nodes.x, nodes.edges, nodes.index, memory_kwargs=_memory(nodes)), None


def _slots(**kwargs: Any) -> Callable[[], nn.Module]:
    return lambda: SlotVirtualNode(CHANNELS, SLOTS, HEADS, **{"init_std": 0.5, **kwargs})


# A smooth activation: where rounding moves a node across the kink of ReLU, its gradient jumps.
SMOOTH: dict[str, Any] = {"init_std": 0.5, "act": "gelu"}
MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Nodes], Rows]]] = {
    **{
        f"SlotVirtualNode {integrate}{'' if anchored else ', no anchor'}": (
            _slots(integrate=integrate, anchored=anchored),
            _virtual_node,
        )
        for integrate in ("film", "residual", "global_film")
        for anchored in (True, False)
    },
    "SlotVirtualNode addressed": (_slots(address_channels=ADDRESS), _virtual_node),
    "SlotVirtualNode addressed residual": (_slots(address_channels=ADDRESS, integrate="residual"), _virtual_node),
    "SlotVirtualNode log-odds": (_slots(mass="log_odds"), _virtual_node),
    "SlotVirtualNode mixture": (_slots(split=False), _virtual_node),
    "SlotVirtualNode competing": (_slots(competition=True, integrate="linear_film"), _virtual_node),
    "VirtualNode mean": (lambda: VirtualNode(CHANNELS), _virtual_node),
    "VirtualNode sum": (lambda: VirtualNode(CHANNELS, "sum"), _virtual_node),
    "VirtualNode max": (lambda: VirtualNode(CHANNELS, "max"), _virtual_node),
    "SlotAggregation": (lambda: SlotAggregation(CHANNELS, SLOTS, HEADS), _aggregation),
    "SlotAggregation no anchor": (lambda: SlotAggregation(CHANNELS, SLOTS, HEADS, anchored=False), _aggregation),
    "SlotConv": (
        lambda: SlotConv(CHANNELS, SAGEConv(CHANNELS, CHANNELS), SLOTS, HEADS, **SMOOTH),
        _conv,
    ),
    "SlotConv no conv": (lambda: SlotConv(CHANNELS, None, SLOTS, HEADS, **SMOOTH), _conv),
}
OPS = ("write", "write shared", "merge", "read")


def pick(draw: Draw) -> str:
    """Ops often: they are cheap, and every module stands on them."""
    return draw.pick(OPS if draw.often(0.4) else tuple(MODULES))


@cache
def subject(name: str, dtype: torch.dtype, salt: int) -> Subject:
    """The subject of this name with parameters drawn from ``salt``, the same numbers in every dtype."""
    if name in OPS:
        return _op(name, dtype, salt)
    build, call = MODULES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(salt)
        module = build().to(dtype)
    addressed, aggregates = "addressed" in name, call is _aggregation
    counts = not ("no anchor" in name or name in ("VirtualNode mean", "VirtualNode max"))
    shape = Shape(
        width=CHANNELS + ADDRESS * addressed,
        node_width=0 if aggregates else CHANNELS,
        graph_width=CHANNELS if aggregates else 0,
        # A mass of e^1e30 is fine in the state; a memory that carries it overflows in the products after it.
        heaviest=20.0 if name == "VirtualNode sum" else 1e3 if counts else 1e30,
        weights=not aggregates,
        masks=not aggregates,
        poison=call is _virtual_node,
    )
    parameters = tuple(parameter.detach().requires_grad_() for parameter in module.parameters())
    untouched = "same" if call is _virtual_node else None
    return Subject(name, shape, parameters, _of_module(module, call), counts=counts, untouched=untouched)


def _op(name: str, dtype: torch.dtype, salt: int) -> Subject:
    generator = torch.Generator().manual_seed(salt)
    query = torch.randn(SLOTS, HEADS, DIM, generator=generator).to(dtype).requires_grad_()
    if name == "read":
        shape = Shape(
            width=HEADS * DIM,
            node_width=HEADS * VDIM,
            graph_width=0,
            table_width=TABLE_WIDTH,
            weights=False,
            scales=OP_SCALES,
        )
        return Subject(name, shape, (), _read, is_op=True, untouched="zero")
    heads = 1 if name == "write shared" else HEADS
    shape = Shape(
        width=heads * (DIM + VDIM),
        node_width=0,
        graph_width=STATE_WIDTH,
        scales=OP_SCALES,
        scaled=heads * DIM,
    )
    return Subject(name, shape, (query,), _merge if name == "merge" else _write(heads), is_op=True)


@contextmanager
def by_definition() -> Iterator[None]:
    """The ops of :mod:`mooring.ops.reference` in place of the fast ones, for the modules over them as well."""

    def write(query, key, value, index=None, *, num_graphs=None, log_weight=None, where=None, null_logit=None):  # type: ignore[no-untyped-def]
        if where is not None:
            log_weight = key.new_zeros(len(key)) if log_weight is None else log_weight
            log_weight = log_weight.masked_fill(~where, NEVER)
        given = {"num_graphs": num_graphs, "log_weight": log_weight, "null_logit": null_logit}
        return reference.write(query, key, value, index, **given)

    def read(query, key, value, index=None, *, where=None, sum_heads=False, residual=False):  # type: ignore[no-untyped-def]
        context = reference.read(query, key if key.dim() == 4 else key.unsqueeze(0), value, index)
        context = context.sum(dim=1, keepdim=True) if sum_heads else context
        context = context if where is None else context.masked_fill(~where[:, None, None], 0.0)
        return query + context if residual else context

    fast = ops.write, ops.read
    ops.write, ops.read = write, read  # type: ignore[assignment]
    try:
        yield
    finally:
        ops.write, ops.read = fast
