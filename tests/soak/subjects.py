"""What is fed with inputs: the ops and every public module, each as a function of one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from inputs import Draw, Nodes, Shape
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from mooring import ops
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from mooring.nn.addresses import SelfAddresses
from mooring.ops import Plan, SlotState

# Heads divide channels; everything else is a prime of its own.
CHANNELS, SLOTS, HEADS, DIM, VDIM, ADDRESS = 10, 3, 2, 5, 7, 11
STATE_WIDTH = SLOTS * HEADS * (VDIM + 1)
MERGED_WIDTH = SLOTS * HEADS * (2 * VDIM + 4)
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
        standardises: each node's standardised state is its address.
        log_odds: they hold the logarithm of the mass, which of nothing is as large as its floor.
        untouched: what a node that is no target has to get: the ``"same"`` features or ``"zero"``; None where it is
            changed by something else as well.
    """

    name: str
    shape: Shape
    parameters: tuple[Tensor, ...]
    run: Callable[[tuple[Tensor, ...], Nodes], Rows]
    is_op: bool = False
    counts: bool = False
    standardises: bool = False
    log_odds: bool = False
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
    query, anchor_logit, anchor_value = parameters
    state = ops.merge(*(_state(query, nodes, everyone & (nodes.part == part), HEADS) for part in range(3)))
    features = (
        state.content,
        ops.anchored(state, anchor_logit, anchor_value),
        ops.anchor_weight(state, anchor_logit),
        ops.softplus_odds(state, anchor_logit),
        ops.log_odds(state, anchor_logit),
        state.log_mass,
    )
    return None, torch.cat([feature.flatten(1) for feature in features], dim=1)


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


def _inspected(module: nn.Module, nodes: Nodes) -> Rows:
    out, memory = module(nodes.x, nodes.index, **_memory(nodes), return_state=True)
    by_graph = (memory.slots, memory.state.content, memory.anchor_weight)
    by_node = (out, memory.write_weights, memory.read_weights)
    return tuple(torch.cat([entry.flatten(1) for entry in entries], dim=1) for entries in (by_node, by_graph))


def _hetero(module: nn.Module, nodes: Nodes) -> Rows:
    """Nodes of part 0 are of one type, all others of another."""
    types = {"few": nodes.part == 0, "many": nodes.part != 0}

    def by_type(tensor: Tensor | None) -> dict[str, Tensor] | None:
        return None if tensor is None else {name: tensor[rows] for name, rows in types.items()}

    given = {name: by_type(entry) if isinstance(entry, Tensor) else entry for name, entry in _memory(nodes).items()}
    if isinstance(nodes.index, Plan):
        batch = {name: nodes.index.pick(rows.nonzero().squeeze(1)) for name, rows in types.items()}
    else:
        batch = by_type(nodes.index)
    out = module(by_type(nodes.x), batch, **given)
    places = torch.cat([rows.nonzero().squeeze(1) for rows in types.values()])
    return torch.cat([out[name] for name in types])[places.argsort()], None


def _aggregation(module: nn.Module, nodes: Nodes) -> Rows:
    return None, module(nodes.x, nodes.index, dim_size=nodes.num_graphs)


def _conv(module: nn.Module, nodes: Nodes) -> Rows:
    options = _memory(nodes)
    num_graphs = options.pop("num_graphs")
    return module(nodes.x, nodes.edges, nodes.index, num_graphs=num_graphs, memory_kwargs=options), None


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
    "SlotVirtualNode inspected": (_slots(), _inspected),
    "HeteroSlotVirtualNode": (
        lambda: HeteroSlotVirtualNode({"few": CHANNELS, "many": CHANNELS}, SLOTS, HEADS, init_std=0.5),
        _hetero,
    ),
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
    module, call = module_of(name, dtype, salt), MODULES[name][1]
    addressed, aggregates, inspected = "addressed" in name, call is _aggregation, call is _inspected
    memory = call in (_virtual_node, _inspected, _hetero)
    counts = not ("no anchor" in name or name in ("VirtualNode mean", "VirtualNode max"))
    shape = Shape(
        width=CHANNELS + ADDRESS * addressed,
        node_width=0 if aggregates else CHANNELS + 2 * SLOTS * HEADS * inspected,
        graph_width=CHANNELS if aggregates else SLOTS * (2 * CHANNELS + HEADS) * inspected,
        # A mass of e^1e30 is fine in the state; a memory that carries it overflows in the products after it.
        heaviest=20.0 if name == "VirtualNode sum" else 1e3 if counts else 1e30,
        weights=not aggregates,
        masks=not aggregates,
        poison=memory,
    )
    parameters = tuple(parameter.detach().requires_grad_() for parameter in module.parameters())
    traits: dict[str, Any] = {"counts": counts, "log_odds": "log-odds" in name, "untouched": "same" if memory else None}
    traits["standardises"] = any(isinstance(part, SelfAddresses) for part in module.modules())
    return Subject(name, shape, parameters, _of_module(module, call), **traits)


def module_of(name: str, dtype: torch.dtype, salt: int) -> nn.Module:
    """The module of this name, no two entries of its parameters the same: a zero would hide what it multiplies."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(salt)
        module = MODULES[name][0]()
        for parameter in module.parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.data += 0.3 * torch.randn_like(parameter)
    return module.to(dtype)


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
        graph_width=MERGED_WIDTH if name == "merge" else STATE_WIDTH,
        scales=OP_SCALES,
        scaled=heads * DIM,
    )
    if name == "merge":
        anchors = torch.randn(SLOTS, HEADS, 1 + VDIM, generator=generator).to(dtype)
        logit, value = (2 * anchors[..., 0]).requires_grad_(), anchors[..., 1:].clone().requires_grad_()
        return Subject(name, shape, (query, logit, value), _merge, is_op=True)
    return Subject(name, shape, (query,), _write(heads), is_op=True)
