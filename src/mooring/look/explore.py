"""``look``: model and data in, page out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch_geometric.data import HeteroData

from mooring.look.graphs import as_batch, draw, num_graphs
from mooring.look.page import Page, pack
from mooring.look.record import Call, memories, record
from mooring.nn import SlotMemory
from mooring.ops.checks import described
from mooring.zoo.registry import required

MAX_NODES = 2000
MAX_GRAPHS = 4
MOST_NODES = 20_000
# PyG's names of an argument that is the whole batch.
WHOLE = ("batch", "data", "graph", "inputs")


class NoMemory(ValueError):
    """Error of a model without a memory, or one that called none."""


def look(
    model: nn.Module | SlotMemory | Mapping[Any, SlotMemory],
    data: Any,
    *,
    call: Callable[[nn.Module, Any], Any] | None = None,
    graphs: Sequence[int] | None = None,
    max_nodes: int = MAX_NODES,
    card: Any = None,
    title: str | None = None,
) -> Page:
    """Run ``model`` on ``data`` and return a page that shows what every memory in it did.

    Args:
        model: a memory (:class:`~mooring.nn.SlotVirtualNode`, a module of the zoo, ...) or any model with memories
            inside. It runs once, in eval mode and without gradients, and is unchanged. Or the result of a pass over
            ``data``, a :class:`~mooring.nn.SlotMemory` or a dictionary of them; nothing is run then.
        data: PyG data, a batch, or a list of data; of a list the first two are shown side by side. Positions are those
            of ``data.pos``, of rdkit's depiction if it is installed and ``data.smiles`` or OGB's integer features are a
            molecule, or of a layout of the edges.
        call: how the model is called, ``call(model, data)``; None fills in the arguments of its forward that ``data``
            has under the same name.
        graphs: which graphs of a batch to show; the first four if None.
        max_nodes: largest number of nodes that is drawn; of larger graphs the page shows a neighbourhood.
        card: a card of the memory by :func:`mooring.audit.audit`, to be shown beside it.
        title: of the page; the name of the model's class if None.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from mooring.nn import SlotVirtualNode
    >>> graph = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> look(SlotVirtualNode(8, slots=2), graph)
    Page('SlotVirtualNode', 1 graph, 1 memory)
    """
    model = getattr(model, "_orig_mod", model)  # a compiled model keeps the one that hooks work on
    if type(max_nodes) is not int or not 1 <= max_nodes <= MOST_NODES:
        raise ValueError(f"look: max_nodes is {max_nodes}, expected a whole number from 1 to {MOST_NODES:,}.")
    batch = as_batch(data)
    count = num_graphs(batch)
    chosen = list(range(min(count, MAX_GRAPHS))) if graphs is None else graphs
    if not isinstance(chosen, Sequence) or not chosen or any(not 0 <= graph < count for graph in chosen):
        raise ValueError(f"look: graphs is {graphs}, expected some of 0 to {count - 1}, as a list.")
    calls = _run(model, batch, call) if isinstance(model, nn.Module) else _kept(model, batch)
    drawn = draw(batch, chosen, max_nodes)
    name = title or (type(model).__name__ if isinstance(model, nn.Module) else "Memory")
    return Page(name, pack(name, _shown(calls, batch), drawn, chosen, count, card))


def _run(model: nn.Module, batch: Any, call: Callable[[nn.Module, Any], Any] | None) -> list[Call]:
    """Run a model and return the passes through its memories."""
    if not memories(model):
        raise NoMemory(
            f"look: {type(model).__name__} has no memory inside. Pass a SlotVirtualNode, a module of mooring.zoo, or a "
            "model that contains one."
        )
    calls = record(model, lambda: call(model, batch) if call is not None else _call(model, batch))
    if not calls:
        raise NoMemory(
            f"look: {type(model).__name__} kept no memory. If none was called, pass call=, a function of model and "
            "data that does. If its nodes attend to each other directly, there is none to show."
        )
    return calls


def _call(model: nn.Module, data: Any) -> Any:
    """Call the model with the arguments that the data has under the same names."""
    parameters = inspect.signature(model.forward).parameters
    if next(iter(parameters), None) in WHOLE:
        return model(data)
    if isinstance(data, HeteroData):
        stored = {name: data.collect(name.removesuffix("_dict"), True) for name in parameters if name.endswith("_dict")}
        arguments = {name: values for name, values in stored.items() if values}
    else:
        arguments = {name: data[name] for name in parameters if data.get(name) is not None}
    missing = [name for name, parameter in parameters.items() if name not in arguments and required(parameter)]
    if missing:
        raise ValueError(
            f"look: {type(model).__name__} takes {', '.join(missing)}, which the data does not have. Add it to the "
            "data, or pass call=, a function of model and data."
        )
    return model(**arguments)


def _kept(memory: Any, batch: Any) -> list[Call]:
    """Return the passes of memories that the caller already has."""
    graphs = num_graphs(batch)
    by_name = {"memory": memory} if isinstance(memory, SlotMemory) else memory
    if not isinstance(by_name, Mapping) or not all(isinstance(item, SlotMemory | None) for item in by_name.values()):
        raise TypeError(
            f"look: model is {described(memory)} but an nn.Module, a SlotMemory or a dictionary of them was expected. "
            "Pass a model, or what its call with return_state=True gave."
        )
    # A module that keeps no memory is in the dictionary of its model all the same.
    by_name = {name: item for name, item in by_name.items() if item is not None}
    if not by_name:
        raise NoMemory("look: the dictionary has no memory. Pass what a model with memories returned.")
    for name, item in by_name.items():
        # The last graphs of a batch may have no nodes, and a pass without ids has one graph.
        if item.slots.size(0) > graphs:
            raise ValueError(
                f"look: {name} has the slots of {item.slots.size(0)} graphs but the data has {graphs}. Pass the data "
                "of the same pass."
            )
    if isinstance(batch, HeteroData) and len(batch.node_types) > 1:
        raise ValueError(
            "look: a memory of several node types does not say in which order they were passed. Pass the model."
        )
    return [Call(str(name), type(item).__name__, item) for name, item in by_name.items()]


def _shown(calls: list[Call], data: Any) -> list[Call]:
    """Return the calls whose rows are the nodes of the data; passes over edges or pooled nodes cannot be drawn."""
    calls = [_ordered(call, data) for call in calls]
    nodes = int(data.num_nodes)
    rows = [nodes if call.memory.write_weights is None else len(call.memory.write_weights) for call in calls]
    fitting = [call for call, count in zip(calls, rows, strict=True) if count == nodes]
    if not fitting:
        listed = ", ".join(f"{call.name}: {count}" for call, count in zip(calls, rows, strict=True))
        raise ValueError(
            f"look: the data has {nodes} nodes but the memories were written by other rows ({listed}), such as edges "
            "or pooled nodes. Look at a memory of the nodes."
        )
    return fitting


def _ordered(call: Call, data: Any) -> Call:
    """Return the call with its node types in the order of the data, in which they are drawn."""
    if call.types is None or not isinstance(data, HeteroData) or call.types.keys() != set(data.node_types):
        return call
    places = dict(zip(call.types, torch.arange(sum(call.types.values())).split(list(call.types.values())), strict=True))
    order = torch.cat([places[name] for name in data.node_types])
    write, read = (
        None if weights is None else weights[order.to(weights.device)]
        for weights in (call.memory.write_weights, call.memory.read_weights)
    )
    return replace(call, memory=call.memory._replace(write_weights=write, read_weights=read))
