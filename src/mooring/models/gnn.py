"""Graph neural network: encoders, local layers with a memory after some of them, a readout and a head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.models.encoders import PositionEncoder, check_linear
from mooring.models.layers import Conv, Layer, Norm, check_conv, check_norm, check_pre_norm, norm_of
from mooring.models.readout import READOUTS, Readout, ReadoutName, log_size
from mooring.nn import SlotMemory
from mooring.nn.checks import check_choice, check_nodes, check_plan, check_positive, check_return_state, check_share
from mooring.ops import Plan
from mooring.ops.checks import check_count, check_flag, check_rows, check_tensor, described, reject_jit_trace

LogSize = Literal["nodes", "head"]


class GNN(nn.Module):
    r"""Graphs -> one vector per graph, or per node: encode, then per layer pass messages and use the memory.

    .. math::
        h^{(0)} = \operatorname{encode}(x), \qquad
        h^{(l+1)} = \operatorname{memory}_l(\operatorname{layer}_l(h^{(l)})), \qquad
        y = \operatorname{MLP}(\operatorname{readout}(h^{(L)}))

    Every part is a small module that can be used alone: :class:`~mooring.models.AtomEncoder`,
    :class:`~mooring.models.Layer`, :class:`~mooring.models.Readout`.

    Args:
        encoder: width of the node features, for a linear map to ``channels``; or a module that returns vectors of
            ``channels``, e.g. ``AtomEncoder(channels)``.
        channels: width of the network.
        out_channels: width of the result.
        layers: number of local layers.
        edge_encoder: the same for edge features; None if there are none.
        conv, norm, dropout, residual, pre_norm: of each layer, see :class:`~mooring.models.Layer`. If conv is None,
            ``"GINEConv"`` with edge features and ``"GINConv"`` without. The head has the same dropout. With
            ``pre_norm`` the nodes are normalised once more after the last layer.
        position: width of a positional encoding by PyG's ``AddRandomWalkPE`` or ``AddLaplacianEigenvectorPE``, or a
            module that maps the encoding to ``channels``.
        memory: a function of the width that builds a virtual node, called once per position; a module, shared by all
            positions; or None. Modules need the forward of :class:`~mooring.nn.SlotVirtualNode`.
        memory_after: indices of the layers that a memory follows; if None, all but the last, or the only one.
        carry: pass the memory's slots from layer to layer; if None, only for modules that are designed for it, such as
            :class:`~mooring.models.OGBVirtualNode`. The learned slots of all memories but the first are then unused,
            and ``DistributedDataParallel`` needs ``find_unused_parameters=True``.
        readout: see :class:`~mooring.models.Readout`; if None, predictions are per node.
        log_size: add the logarithm of a graph's number of nodes to the input of its ``"nodes"`` or of the ``"head"``; a
            control for memories that may do no more than count nodes.
        typical_size: typical number of nodes per graph, the unit of sums and sizes.

    Shapes: x ``[nodes, features]``, edge_index ``[2, edges]`` -> ``[graphs, out_channels]``, or
    ``[nodes, out_channels]`` without a readout.

    >>> from functools import partial
    >>> from mooring import SlotVirtualNode
    >>> model = GNN(5, 16, 1, layers=3, conv="GCNConv", memory=partial(SlotVirtualNode, slots=4))
    >>> model(torch.randn(3, 5), torch.tensor([[0, 1], [1, 0]]), batch=torch.tensor([0, 0, 1])).shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        encoder: int | nn.Module,
        channels: int,
        out_channels: int,
        layers: int = 5,
        *,
        edge_encoder: int | nn.Module | None = None,
        conv: Conv | None = None,
        norm: Norm | None = "batch",
        dropout: float = 0.0,
        residual: bool = True,
        pre_norm: bool = False,
        position: int | nn.Module | None = None,
        memory: Callable[[int], nn.Module | None] | nn.Module | None = None,
        memory_after: Iterable[int] | None = None,
        carry: bool | None = None,
        readout: ReadoutName | nn.Module | None = "mean",
        log_size: LogSize | None = None,
        typical_size: float = 1.0,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        for name, count in (("channels", channels), ("out_channels", out_channels), ("layers", layers)):
            check_count(who, name, count)
        check_share(who, "dropout", dropout)
        check_positive(who, "typical_size", typical_size)
        if log_size is not None:
            check_choice(who, "log_size", log_size, get_args(LogSize), "None")
        if log_size == "head" and readout is None:
            raise ValueError(f"{who}: log_size='head' needs a readout. Pass log_size='nodes', or a readout.")
        self.channels = channels
        self.log_size = log_size
        self.typical_size = typical_size
        self.encoder: Any = _encoder(who, "encoder", encoder, channels)
        self.edge_encoder: Any = None if edge_encoder is None else _encoder(who, "edge_encoder", edge_encoder, channels)
        if position is not None and not isinstance(position, nn.Module):
            position = PositionEncoder(check_count(who, "position", position), channels)
        self.position: Any = position
        self.size_encoder = nn.Linear(1, channels) if log_size == "nodes" else None
        conv = ("GINConv" if edge_encoder is None else "GINEConv") if conv is None else conv
        check_conv(who, conv)
        check_norm(who, norm)
        if not isinstance(readout, nn.Module | None):
            check_choice(who, "readout", readout, READOUTS, "an aggregation")
        options: dict[str, Any] = {"norm": norm, "dropout": dropout, "residual": check_flag(who, "residual", residual)}
        options["pre_norm"] = check_pre_norm(who, pre_norm, conv)
        self.layers = nn.ModuleList(Layer(channels, conv, **options) for _ in range(layers))
        self.norm = norm_of(who, norm if pre_norm else None, channels)
        self.memory: Any = nn.ModuleDict(_memories(who, memory, _places(who, memory_after, layers), channels))
        if memory is None and memory_after is not None:
            raise ValueError(f"{who}: memory_after has no effect without a memory. Leave it out, or pass memory.")
        self.carry = _carry(who, carry, list(self.memory.values()))
        self.readout = None if readout is None else Readout(channels, readout, typical_size=typical_size)
        width = channels if self.readout is None else self.readout.out_channels
        self.head = nn.Sequential(
            nn.Linear(width + (log_size == "head"), channels),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(channels, out_channels),
        )

    def reset_parameters(self) -> None:
        parts = (self.encoder, self.edge_encoder, self.position, self.size_encoder, self.norm, self.readout, self.head)
        for module in (*parts, *self.layers, *self.memory.values()):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        batch: Tensor | Plan | None = None,
        *,
        pe: Float[Tensor, "nodes width"] | None = None,
        ptr: Tensor | None = None,
        num_graphs: int | None = None,
        plan: Plan | None = None,
        graph_features: Float[Tensor, "graphs graph_channels"] | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> Tensor | tuple[Tensor, dict[int, SlotMemory]]:
        """Return predictions per graph, or per node without a readout.

        Args:
            x, edge_attr: inputs of the encoders.
            edge_index: input of the layers; a sparse adjacency if the layers accept it.
            batch, ptr, num_graphs, plan: the graph of each node, as in :class:`~mooring.nn.SlotVirtualNode`.
            pe: the positional encoding, if ``position`` was set.
            graph_features: features of whole graphs, for memories that were built with ``graph_channels``.
            return_state: also return the state of each memory, keyed by the index of its layer; ``"slots"`` as in
                :class:`~mooring.nn.SlotVirtualNode`.
        """
        who = type(self).__name__
        return_state = check_return_state(who, return_state)
        self._check(x, edge_index, edge_attr, pe)
        check_nodes(who, x, batch=batch)
        plan = check_plan(who, x, batch, ptr, plan, num_graphs)
        h = self.encoder(x)
        if self.position is not None:
            h = h + self.position(pe)
        size = None if self.log_size is None else log_size(plan, self.typical_size).to(h.dtype)
        if self.size_encoder is not None:
            h = h + self.size_encoder(size).index_select(0, plan.index)
        edges = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        states: dict[int, SlotMemory] = {}
        carried: dict[str, Any] = {}
        features = {} if graph_features is None else {"graph_features": self._checked(graph_features)}
        for number, layer in enumerate(self.layers):
            h, edges = layer(h, edge_index, edges)
            if str(number) not in self.memory:
                continue
            # Skip the attention weights, which only a reader of the state needs.
            detail = return_state or ("slots" if self.carry else False)
            out = self.memory[str(number)](h, plan=plan, return_state=detail, **features, **carried)
            h, state = out if isinstance(out, tuple) else (out, None)
            states[number] = state
            carried = {"memory": state} if self.carry else {}
        h = self.norm(h)
        if self.readout is not None:
            h = self.readout(h, plan)
            h = torch.cat([h, size], dim=1) if self.log_size == "head" else h  # type: ignore[list-item]
        out = self.head(h)
        return (out, states) if return_state else out

    def _checked(self, graph_features: Tensor) -> Tensor:
        """Return the features if there is a memory and every memory takes them; it then checks them itself."""
        who, memories = type(self).__name__, list(self.memory.values())
        if not memories or any(getattr(one, "graph_channels", None) is None for one in memories):
            name = f"{type(memories[0]).__name__} takes none" if memories else "there is no memory to see them"
            raise ValueError(
                f"{who}: got graph_features but {name}. Build it with memory=partial(SlotVirtualNode, "
                f"graph_channels={graph_features.size(-1)})."
            )
        return graph_features

    def _check(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None, pe: Tensor | None) -> None:
        """Check the inputs of our encoders; a custom encoder checks its input itself."""
        who = type(self).__name__
        reject_jit_trace(who)
        check_tensor(who, "x", x)
        parts: dict[str, tuple[str, Any]] = {
            "encoder": ("x", x),
            "edge_encoder": ("edge_attr", edge_attr),
            "position": ("pe", pe),
        }
        for name, (argument, value) in parts.items():
            module = getattr(self, name)
            if (module is None) != (value is None):
                if value is None:
                    raise ValueError(f"{who}: {argument} is required because {name} was set. Pass {argument}.")
                raise ValueError(f"{who}: got {argument} but {name} is None. Build it with {name}, or omit {argument}.")
            lin = module.lin if isinstance(module, PositionEncoder) else module
            if type(lin) is nn.Linear:
                check_linear(self, lin, name, argument, value)
            if isinstance(module, PositionEncoder):
                check_rows(who, "pe", value, x.size(0), "x")
        edges = edge_index.size(1) if type(edge_index) is Tensor and edge_index.dim() == 2 else None
        if isinstance(edge_attr, Tensor) and edges is not None and edge_attr.size(0) != edges:
            raise ValueError(
                f"{who}: edge_attr has {edge_attr.size(0)} rows but edge_index has {edges} edges. Pass one row for "
                "each edge."
            )

    def __repr__(self) -> str:
        memory = next(iter(self.memory.values()), None)
        after = f" after {', '.join(self.memory)}" if memory is not None else ""
        conv = type(self.layers[0].conv).__name__
        return (
            f"{type(self).__name__}({self.channels}, layers={len(self.layers)}, conv={conv}, memory={memory}{after}, "
            f"readout={self.readout})"
        )


def _encoder(who: str, name: str, encoder: int | nn.Module, channels: int) -> nn.Module:
    if isinstance(encoder, nn.Module):
        return encoder
    return nn.Linear(check_count(who, name, encoder), channels)


def _places(who: str, memory_after: Iterable[int] | None, layers: int) -> list[int]:
    if memory_after is None:
        return list(range(max(layers - 1, 1)))
    places = list(memory_after) if isinstance(memory_after, Iterable) else [memory_after]
    # A boolean mask would be accepted as zeros and ones.
    whole = isinstance(memory_after, Iterable) and all(type(place) is int for place in places)
    if not whole or any(not 0 <= place < layers for place in places) or len(set(places)) < len(places):
        got = places if isinstance(memory_after, Iterable) else memory_after
        raise ValueError(
            f"{who}: memory_after is {got} but different numbers from 0 to {layers - 1} were expected, as there are "
            f"{layers} layers. Pass e.g. [{layers - 1}]."
        )
    return sorted(places)


def _memories(
    who: str, memory: Callable[[int], nn.Module | None] | nn.Module | None, places: list[int], channels: int
) -> dict[str, nn.Module]:
    if memory is not None and not callable(memory):
        raise TypeError(
            f"{who}: memory is {described(memory)} but a module or a function of the width was expected, e.g. "
            "partial(SlotVirtualNode, slots=8)."
        )
    built = {}
    for place in places if memory is not None else []:
        module = memory if isinstance(memory, nn.Module) else memory(channels)  # type: ignore[misc]
        if not isinstance(module, nn.Module | None):
            raise TypeError(
                f"{who}: memory({channels}) returned {described(module)} but a module or None was expected. Pass a "
                "function of the width that builds one, e.g. partial(SlotVirtualNode, slots=8)."
            )
        if module is not None:
            built[str(place)] = module
    return built


def _carry(who: str, carry: bool | None, memories: list[nn.Module]) -> bool:
    if carry is None:
        return any(getattr(_inner(module), "carries", False) for module in memories)
    if check_flag(who, "carry", carry) and not memories:
        raise ValueError(f"{who}: carry=True has no effect without a memory. Leave it out, or pass memory.")
    fresh = [module for module in map(_inner, memories) if not _takes_memory(module)]
    if carry and fresh:
        raise ValueError(
            f"{who}: carry=True but {type(fresh[0]).__name__} takes no memory of the layer before. Pass carry=False."
        )
    return bool(carry)


def _takes_memory(module: nn.Module) -> bool:
    """Return whether the module accepts ``memory=`` from the previous layer."""
    return getattr(module, "takes_memory", "memory" in inspect.signature(module.forward).parameters)


def _inner(module: nn.Module) -> nn.Module:
    """Return the module inside wrappers such as the zoo's ``WithNodeMLP``."""
    inner = getattr(module, "module", None)
    return _inner(inner) if isinstance(inner, nn.Module) else module
