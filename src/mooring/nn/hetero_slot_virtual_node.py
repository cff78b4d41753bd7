"""Virtual node with a common memory for all node types of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.nn.module_dict import ModuleDict

from mooring import ops
from mooring.nn.addresses import (
    DEFAULT_ROUTING,
    TEMPERATURES,
    Routes,
    Routing,
    build_addresses,
    choose_routing,
    hide_address,
)
from mooring.nn.checks import (
    check_build,
    check_choice,
    check_features,
    check_finite,
    check_graph_features,
    check_nodes,
    check_positive,
    check_return_state,
    check_share,
    check_width_or_none,
    shown,
)
from mooring.nn.hetero_plans import plans_by_type
from mooring.nn.integrate import SlotFiLM
from mooring.nn.lazy import lazy_channels
from mooring.nn.masks import add_log_weights, drop_writes, hide, readers, sound_nodes, writers
from mooring.nn.memory import SlotMemory, build_graph_features, call_gathered, carried_slots
from mooring.nn.slot_read import SlotRead
from mooring.nn.slot_update import UPDATE_NORMS, SlotUpdate, check_update
from mooring.nn.slot_write import SlotWrite
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_count, check_flag, check_log_weight, described
from mooring.ops.state import finite_or_zero

# The only key of a module whose projections are shared by all types. A user may have a type of this name.
SHARED = "shared"


class View(NamedTuple):
    """Nodes of one type in one pass: their modules, projected and masked features, routes, plan and masks."""

    part: Any
    x: Tensor
    routes: Routes | None
    plan: Plan
    writes: Tensor | None
    reads: Tensor | None
    log_weight: Tensor | None


@lazy_channels("parts.{}.integrate.lin_node.weight")
class HeteroSlotVirtualNode(nn.Module):
    r"""Features of several node types -> features updated through one memory that all types write and read.

    Every type writes to the same slots through separate projections, and the states of the types are merged:

    .. math::
        Z = \operatorname{update}\Big(\bigoplus_t \operatorname{write}_t(X_t)\Big), \qquad
        X_t' = \operatorname{FiLM}_t(X_t, \operatorname{read}_t(X_t, Z))

    The merge is exact: with shared projections the module equals :class:`~mooring.nn.SlotVirtualNode` on the nodes of
    all types together.

    Args:
        channels: width of the features of each type, ``{type: channels}``, for separate projections; or one width, for
            projections shared by all types. A width of -1 is taken from the first input.
        slots, heads: as in :class:`~mooring.nn.SlotVirtualNode`.
        memory_channels: width of the slots; if None, the largest width of a type. Required if a width is -1.
        anchored, temperature, routing, competition, dropout: as in :class:`~mooring.nn.SlotVirtualNode`.
        graph_channels: width of the ``graph_features`` argument of forward; None if it takes none.
        update: further arguments of :class:`~mooring.nn.SlotUpdate`.
        hidden_channels: hidden width of FiLM; a quarter of the channels of the type (at least 16) if None.
        init_std: standard deviation of the last weights of FiLM.

    Shapes: x_dict ``{type: [nodes, channels]}``, batch_dict ``{type: [nodes]}`` -> ``{type: [nodes, channels]}``.

    A type may have no nodes or be absent from a call. Masks act as in :class:`~mooring.nn.SlotVirtualNode`.

    >>> memory = HeteroSlotVirtualNode({"user": 8, "item": 12}, slots=3)
    >>> out = memory({"user": torch.randn(5, 8), "item": torch.randn(2, 12)})
    >>> out["item"].shape
    torch.Size([2, 12])
    """

    def __init__(
        self,
        channels: int | Mapping[str, int],
        slots: int,
        heads: int = 4,
        *,
        memory_channels: int | None = None,
        anchored: bool = True,
        temperature: float | None = None,
        routing: Literal["self", "free"] | None = None,
        competition: bool = False,
        dropout: float = 0.0,
        hidden_channels: int | None = None,
        init_std: float = 1e-3,
        graph_channels: int | None = None,
        **update: Any,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.shared = not isinstance(channels, Mapping)
        widths = dict(channels) if isinstance(channels, Mapping) else {SHARED: channels}
        if not widths:
            raise ValueError(
                f"{who}: channels names no node type. Pass {{type: channels}}, or one width for all types."
            )
        for name, width in widths.items():
            if not isinstance(name, str):
                raise TypeError(
                    f"{who}: channels has the node type {described(name)} but types are named by strings. Pass "
                    f"{{{str(name)!r}: {width}}}."
                )
            check_count(who, f"channels of {name!r}", width)
        argument = "channels" if memory_channels is None else "memory_channels"
        memory_channels = max(widths.values()) if memory_channels is None else memory_channels
        check_build(who, memory_channels, slots, heads, argument)
        check_share(who, "dropout", dropout)
        if routing is not None:
            check_choice(who, "routing", routing, ("self", "free"), "None")
        self.routing: Routing = choose_routing(who, routing, None)
        temperature = TEMPERATURES[self.routing] if temperature is None else temperature
        check_positive(who, "temperature", temperature)
        check_finite(who, "init_std", init_std, least=0.0)
        check_width_or_none(who, "hidden_channels", hidden_channels, memory_channels)
        competition = check_flag(who, "competition", competition)
        anchored, split = check_update(who, anchored=anchored, **update)
        update |= {"split": split} if "split" in update else {}
        check_choice(who, "norm", update.get("norm", "layer"), UPDATE_NORMS)
        self.channels, self.dropout = widths, dropout
        self.temperature, self.competition, self.init_std = temperature, competition, init_std
        self.hidden_channels, self.update_options = hidden_channels, update
        self.memory_channels, self.slots, self.heads, self.anchored = memory_channels, slots, heads, anchored
        size = (memory_channels, slots, heads)
        self.update = SlotUpdate(*size, anchored=anchored, **update)
        # Keyed by type, so that a state dict does not depend on the order of types. Module names may not have dots.
        self.parts = nn.ModuleDict()
        self.types = {name: ModuleDict.to_internal_key(name) for name in widths}
        for name, width in widths.items():
            hidden = max(width // 4, 16) if hidden_channels is None else hidden_channels
            part = nn.Module()
            part.project = nn.Identity() if width == memory_channels else nn.Linear(width, memory_channels, bias=False)
            addresses = build_addresses(self.routing, None, *size, temperature)
            part.write = SlotWrite(*size, temperature=temperature, addresses=addresses, competition=competition)
            by_address = addresses is not None
            read_temperature = 1.0 if by_address else temperature
            part.read = SlotRead(*size, out_channels=hidden, temperature=read_temperature, by_address=by_address)
            part.integrate = SlotFiLM(width, hidden, init_std=init_std)
            self.parts[self.types[name]] = part
        if len(self.parts) < len(widths):
            named = ", ".join(map(repr, widths))
            raise ValueError(
                f"{who}: two of the node types {named} map to the same module name ('.' is stored as '#'). Rename one."
            )
        self.graph_channels = graph_channels
        self.graph = build_graph_features(who, graph_channels, slots, memory_channels)
        self._tie()
        self.register_load_state_dict_post_hook(_tie_loaded)

    def _tie(self) -> None:
        """Tie the slot-side parameters of all node types to those of the first, also after PEFT replaced them."""
        first = self._first()
        parts: Any = self.parts.values()
        by_address = self.routing == "self"
        for part in parts:
            for module, source, names in (
                (part.write, first.write, ("null_logit",) if by_address else ("slot", "lin_query", "null_logit")),
                (part.read, first.read, ("lin_value",) if by_address else ("lin_key", "lin_value")),
                (part.write.addresses, first.write.addresses, ("slot",) if by_address else ()),
            ):
                for name in names:
                    value = getattr(source, name)
                    # A parametrised slot is computed at each access, and forward passes it on.
                    is_computed = isinstance(value, Tensor) and not isinstance(value, nn.Parameter)
                    if getattr(module, name) is not value and not is_computed:
                        setattr(module, name, value)

    def _first(self) -> Any:
        return self.parts[next(iter(self.types.values()))]

    def reset_parameters(self) -> None:
        self.update.reset_parameters()
        reset(self.graph)
        parts: Any = self.parts.values()
        for part in parts:
            for module in part.children():
                reset(module)
            reset(part.write.addresses)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        batch_dict: Mapping[str, Tensor | Plan] | None = None,
        *,
        ptr_dict: Mapping[str, Tensor] | None = None,
        plan_dict: Mapping[str, Plan] | None = None,
        sources: Mapping[str, Tensor] | None = None,
        targets: Mapping[str, Tensor] | None = None,
        log_weight: Mapping[str, Tensor] | None = None,
        num_graphs: int | None = None,
        memory: SlotMemory | None = None,
        graph_features: Tensor | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> dict[str, Tensor] | tuple[dict[str, Tensor], SlotMemory]:
        """Return the updated nodes of each type.

        Arguments are those of :class:`~mooring.nn.SlotVirtualNode`, by type if they concern nodes; a type absent from a
        mask is not masked. Weights in the :class:`~mooring.nn.SlotMemory` are concatenated in the order of ``x_dict``.
        """
        who = type(self).__name__
        return_state = check_return_state(who, return_state)
        if not torch.compiler.is_compiling():
            self._tie()
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        arguments = {"batch_dict": batch_dict, "ptr_dict": ptr_dict, "plan_dict": plan_dict, **masks}
        for name, mapping in {"x_dict": x_dict, **arguments}.items():
            if not (isinstance(mapping, Mapping) or (mapping is None and name != "x_dict")):
                raise TypeError(
                    f"{who}: {name} is {described(mapping)} but a dictionary by node type was expected. Pass "
                    "{type: tensor}."
                )
        arguments = {name: mapping or {} for name, mapping in arguments.items()}
        self._check(x_dict, arguments)
        batches, offsets, known_plans = (arguments[key] for key in ("batch_dict", "ptr_dict", "plan_dict"))
        plans = plans_by_type(who, x_dict, batches, offsets, known_plans, num_graphs)
        x, plan = next(iter(x_dict.values())), next(iter(plans.values()))
        carried = carried_slots(who, memory, (plan.num_graphs, self.slots, self.memory_channels), x)
        check_graph_features(who, graph_features, x, plan.num_graphs, self.graph_channels)
        slot = call_gathered(self._first().write, "slot_address")
        views = {
            name: self._view(name, x, slot, plans[name], *(arguments[key].get(name) for key in masks))
            for name, x in x_dict.items()
        }
        identity = call_gathered(self._first().write, "identity") if carried is None else carried

        states = [self._write(view, identity) for view in views.values()]
        state = states[0] if len(states) == 1 else ops.merge(*states)
        slots = self.update(state, identity)
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = {name: self._read(x_dict[name], view, slots) for name, view in views.items()}

        if not return_state:
            return out
        inside = SlotMemory(state, slots)
        if return_state == "slots":
            return out, inside
        pairs = zip(views.values(), states, strict=True)
        weights = [self._weights(view, state, inside, identity) for view, state in pairs]
        written, read = (torch.cat(tensors) for tensors in zip(*weights, strict=True))
        anchor = call_gathered(self.update, "anchor_weight", state) if self.anchored else None
        return out, SlotMemory(state, slots, anchor, written, read)

    def _view(
        self,
        name: str,
        x: Tensor,
        slot: Tensor | None,
        plan: Plan,
        sources: Tensor | None,
        targets: Tensor | None,
        log_weight: Tensor | None,
    ) -> View:
        """Mask the nodes of one type, project them and compute their routes."""
        part = self._part(name)
        writes = writers(sources, log_weight)
        reads = readers(sound_nodes(x, None, writes), targets)
        visible = None if writes is None or reads is None else writes | reads
        if self.training and self.dropout:
            log_weight = add_log_weights(log_weight, drop_writes(x, self.slots, self.heads, self.dropout))
        x = part.project(hide(x, visible))
        routes = call_gathered(part.write, "routes", x, None, slot)
        return View(part, x, routes, plan, writes, reads, log_weight)

    def _write(self, view: View, slots: Tensor | None) -> SlotState:
        part, x, routes, plan, writes, _, log_weight = view
        state: SlotState = part.write(x, plan, address=routes, sources=writes, log_weight=log_weight, slots=slots)
        return state

    def _read(self, x: Tensor, view: View, slots: Tensor) -> Tensor:
        """Update the nodes of one type that read."""
        routes = hide_address(view.routes, view.reads)
        context = view.part.read(hide(view.x, view.reads), slots, view.plan, address=routes, targets=view.reads)
        if self.training and self.dropout:
            context = nn.functional.dropout(context, self.dropout)
        out: Tensor = view.part.integrate(hide(x, view.reads), context, slots, view.plan.batch)
        return out if view.reads is None else torch.where(view.reads.unsqueeze(-1), out, x)

    def _weights(self, view: View, state: SlotState, memory: SlotMemory, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return write and read weights of one type; write weights are scaled by its share of the mass."""
        part, x, routes, plan, writes, reads, log_weight = view
        masks = {"sources": writes, "log_weight": log_weight}
        written = call_gathered(part.write, "weights", state, x, plan, address=routes, slots=slots, **masks)
        share = (state.log_mass - finite_or_zero(memory.state.log_mass)).exp().index_select(0, plan.index)
        return written * share, call_gathered(part.read, "weights", x, memory.slots, plan, routes, reads)

    def _part(self, name: str) -> Any:
        return self.parts[self.types[SHARED if self.shared else name]]

    def _check(self, x_dict: Mapping[str, Tensor], arguments: Mapping[str, Mapping[str, Any]]) -> None:
        """Check types, shapes, dtypes and devices of everything but the batches."""
        who = type(self).__name__
        if not x_dict:
            raise ValueError(f"{who}: x_dict has no node type. Pass the features of at least one.")
        for name, x in x_dict.items():
            if name not in self.types and not self.shared:
                known = ", ".join(map(repr, self.types))
                raise ValueError(f"{who}: x_dict has {name!r} but the module was built for {known}.")
            check_features(self, self.channels[SHARED if self.shared else name], x, f"x of {name!r}")
        for argument, mapping in arguments.items():
            unknown = [name for name in mapping if name not in x_dict]
            if unknown:
                raise ValueError(f"{who}: {argument} has {unknown[0]!r} but x_dict has not. Pass features for it too.")
        rows = (self.slots, self.heads)
        for name, x in x_dict.items():
            masks = {key: arguments[key].get(name) for key in ("sources", "targets", "log_weight")}
            check_nodes(f"{who}, type {name!r}", x, **masks, rows=rows)
            check_log_weight(f"{who}, type {name!r}", masks["log_weight"], x.size(0), rows)

    def __repr__(self) -> str:
        channels = self.channels[SHARED] if self.shared else self.channels
        parts: Any = self.parts.values()
        widest = max(part.integrate.channels for part in parts)
        memory = None if self.memory_channels == widest else self.memory_channels
        values: dict[str, Any] = {"memory_channels": memory, "update": self.update_options}
        values["routing"] = None if self.routing == DEFAULT_ROUTING else self.routing
        values["temperature"] = None if self.temperature == TEMPERATURES[self.routing] else self.temperature
        return shown(self, HeteroSlotVirtualNode, channels, "heads", "anchored", **values)


def _tie_loaded(module: HeteroSlotVirtualNode, _: Any) -> None:
    """Tie the slots again after loading with ``assign=True``, which separates them."""
    module._tie()
