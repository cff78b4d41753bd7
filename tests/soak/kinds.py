"""Further ways to use an input: forward mode, a batch that changes under its plan, export, strings for booleans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from bounds import SLACK, Bounds
from inputs import Draw, Nodes
from outcomes import Outcome, close, differences, outcome
from subjects import ADDRESS, CHANNELS, HEADS, SLOTS, Subject, module_of
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import mooring
from mooring import models, ops, zoo
from mooring.nn import (
    HeteroSlotVirtualNode,
    MemorySpec,
    SlotAggregation,
    SlotConv,
    SlotFiLM,
    SlotUpdate,
    SlotVirtualNode,
    SlotWrite,
    VirtualNode,
)

# Shares of the inputs. Inputs without nodes always meet forward mode; an export takes a second, and is made once.
RATES = {"tangents": 0.1, "changed batch": 0.1, "exported": 0.002, "strings": 0.02}
WORDS = ("False", "True", "false", "off", "on", "no", "yes", "0", "slot", "")
EXPORTED = (
    "SlotVirtualNode film",
    "SlotVirtualNode residual, no anchor",
    "SlotVirtualNode global_film",
    "SlotVirtualNode addressed",
    "SlotVirtualNode log-odds",
    "SlotVirtualNode mixture",
    "SlotVirtualNode competing",
    "VirtualNode sum",
    "VirtualNode max",
    "SlotAggregation",
)
SIZES = (CHANNELS, SLOTS, HEADS)
ONE, NO_EDGES = torch.ones(1, CHANNELS), torch.zeros(2, 0, dtype=torch.long)


def _built(module: Callable[..., object], name: str, *sizes: Any) -> Callable[[str], object]:
    return lambda word: module(*(sizes or SIZES), **{name: word})


def _called(module: nn.Module, *inputs: Any) -> Callable[[str], object]:
    return lambda word: module(*inputs, return_state=word)


# Everything that takes a boolean, as a function of it.
BOOLEANS: dict[str, Callable[[str], object]] = {
    **{
        f"{module.__name__}({name}=)": _built(module, name)
        for module, names in {
            SlotVirtualNode: ("anchored", "competition", "split"),
            SlotUpdate: ("anchored", "split"),
            SlotWrite: ("competition",),
            SlotAggregation: ("anchored", "competition"),
            HeteroSlotVirtualNode: ("anchored", "competition"),
        }.items()
        for name in names
    },
    "SlotConv(anchored=)": _built(SlotConv, "anchored", CHANNELS, None, SLOTS, HEADS),
    "VirtualNode(joint=)": _built(VirtualNode, "joint", CHANNELS),
    "SlotFiLM(linear=)": _built(SlotFiLM, "linear", CHANNELS),
    "GNN(residual=)": lambda word: models.GNN(CHANNELS, CHANNELS, 1, residual=word),
    "checks": lambda word: mooring.checks(word),
    "SlotVirtualNode.forward": _called(SlotVirtualNode(*SIZES), ONE),
    "VirtualNode.forward": _called(VirtualNode(CHANNELS), ONE),
    "SlotAggregation.forward": _called(SlotAggregation(*SIZES), ONE),
    "HeteroSlotVirtualNode.forward": _called(HeteroSlotVirtualNode(*SIZES), {"type": ONE}),
    "SlotConv.forward": _called(SlotConv(CHANNELS, SAGEConv(CHANNELS, CHANNELS), SLOTS, HEADS), ONE, NO_EDGES),
    "GNN.forward": _called(models.GNN(CHANNELS, CHANNELS, 1, memory=SlotVirtualNode(*SIZES)).eval(), ONE, NO_EDGES),
    **{
        f"{name} of the zoo": _called(zoo.build(name, MemorySpec(channels=CHANNELS, slots=SLOTS, heads=HEADS)), ONE)
        for name in ("isab", "transformer", "range")
    },
}


def faults(
    tested: Subject, nodes: Nodes, plain: Outcome, allowed: Bounds, draw: Draw, tried: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Use the input in some further ways; ``tried`` counts them."""
    chosen = {kind for kind, rate in RATES.items() if draw.often(rate)}
    nobody = not len(nodes.x)
    with ops.use_backend(None):
        if nobody or "tangents" in chosen:
            tried["tangents"] += 1
            tried["tangents without nodes"] += nobody
            yield from (("tangent", what) for what in tangents(tested, nodes, plain, allowed, draw))
        if "exported" in chosen:
            tried["exported"] += 1
            yield from (("exported", what) for what in exported(draw.pick(EXPORTED), draw))
    if "changed batch" in chosen and nodes.num_graphs > 1:
        tried["changed batch"] += 1
        yield from (("plan", what) for what in changed_batch(tested, nodes, plain, allowed, draw))
    if "strings" in chosen:
        tried["strings"] += 1
        yield from (("accepted", what) for what in accepted(draw.pick(tuple(BOOLEANS)), draw.pick(WORDS)))


def tangents(tested: Subject, nodes: Nodes, plain: Outcome, allowed: Bounds, draw: Draw) -> Iterator[str]:
    """What forward mode gives in a drawn direction that is not finite, or not what the gradients give."""
    weights = [] if nodes.log_weight is None else [nodes.log_weight]
    leaves = [tensor.detach() for tensor in (nodes.x, nodes.table, *weights, *tested.parameters)]
    directions = [draw.randn(*leaf.shape).to(leaf.dtype) for leaf in leaves]

    def run(x: Tensor, table: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        weight = rest[0] if weights else None
        rows = tested.run(rest[len(weights) :], replace(nodes, x=x, table=table, log_weight=weight))
        return tuple(row for row in rows if row is not None)

    outputs, slopes = torch.func.jvp(run, tuple(leaves), tuple(directions))
    forward = torch.zeros((), dtype=torch.float64)
    for output, slope in zip(outputs, slopes, strict=True):
        # Rows of nodes come first where there are both.
        by_node = plain.by_node is not None and output is outputs[0]
        rows = ~nodes.left_out if by_node else slice(None)
        slope = slope.double()[rows]
        if not bool(slope.isfinite().all()):
            yield "by_node" if by_node else "by_graph"
            return
        weight = (nodes.node_slope if by_node else nodes.graph_slope)[rows]
        forward = forward + (torch.where(output[rows].isneginf(), 0.0, slope) * weight).sum()
    of_nodes = torch.cat([directions[0], *(entry.unsqueeze(1) for entry in directions[2 : 2 + len(weights)])], dim=1)
    shared = torch.cat([entry.flatten() for entry in directions[2 + len(weights) :]] or [nodes.x.new_zeros(0)])
    pairs = ((plain.grad_node, of_nodes), (plain.grad_graph, directions[1]), (plain.grad_shared, shared))
    terms = torch.cat([(grad * direction).flatten().double() for grad, direction in pairs if grad is not None])
    if not bool((forward - terms.sum()).abs() <= allowed.gradient * (1.0 + terms.abs().sum())):
        yield f"{float(forward)} where the gradients give {float(terms.sum())}"


def changed_batch(tested: Subject, nodes: Nodes, plain: Outcome, allowed: Bounds, draw: Draw) -> list[str]:
    """What changes when the tensor that a plan was made of is changed in place, before or after the first use."""
    graphs = nodes.num_graphs
    if bool((nodes.index.diff() >= 0).all()) and draw.often(0.5):
        given = torch.searchsorted(nodes.index, torch.arange(graphs + 1))
        plan = ops.plan(ptr=given)
        changed = torch.cat([given[:1], given[-1:].expand(graphs)])
    else:
        given = nodes.index.clone()
        plan = ops.plan(given, num_graphs=graphs)
        changed = graphs - 1 - given
    planned = replace(nodes, index=plan)
    if draw.often(0.5):
        outcome(tested, planned, slopes=False)
    given.copy_(changed)
    return differences(nodes, plain, outcome(tested, planned), allowed)


class Exportable(nn.Module):
    """A module as a function of features and graph ids, addresses among the features."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, batch: Tensor, **options: Any) -> Tensor:
        if x.size(1) == CHANNELS:
            return self.module(x, batch, **options)
        x, address = x.split([CHANNELS, ADDRESS], dim=1)
        return self.module(x, batch, address=address, **options)


@cache
def program(name: str) -> tuple[nn.Module, Callable[..., Tensor], int]:
    """A module, its exported program for any number of nodes, and the width of its input."""
    module = Exportable(module_of(name, torch.float32, 0)).eval()
    width = CHANNELS + ADDRESS * ("addressed" in name)
    nodes = torch.export.Dim("nodes", min=0)
    example = torch.randn(11, width), torch.arange(11) // 6
    exported_program = torch.export.export(module, example, dynamic_shapes=({0: nodes}, {0: nodes}))
    return module, exported_program.module(), width


def exported(name: str, draw: Draw) -> Iterator[str]:
    """Where an exported program differs from its module: on a drawn batch, with gaps, and on one without nodes."""
    module, run, width = program(name)
    for count in (draw.random.randint(1, 40), 0):
        x, ids = draw.randn(count, width), draw.random.randint(1, 9) * (draw.order(count) // 4)
        # An exported program has at least one graph.
        options = {} if count else {"dim_size" if name == "SlotAggregation" else "num_graphs": 1}
        allowed = SLACK * torch.finfo(x.dtype).eps * (1.0 + float(x.abs().sum()))
        try:
            same = close(run(x, ids), module(x, ids, **options), allowed)
        except RuntimeError as error:
            yield f"{name} on {count} nodes: {error}"
        else:
            if not same:
                yield f"{name} on {count} nodes"


def accepted(name: str, word: str) -> Iterator[str]:
    """The word, where something that takes a boolean accepts it."""
    try:
        BOOLEANS[name](word)
    except (TypeError, ValueError):
        return
    finally:
        mooring.checks(True)
    yield f"{word!r} by {name}"
