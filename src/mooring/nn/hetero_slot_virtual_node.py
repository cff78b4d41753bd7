"""One memory for all node types of a heterogeneous graph."""

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
    SelfAddresses,
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
from mooring.nn.memory import SlotMemory, build_graph_features, carried_slots, gathered
from mooring.nn.slot_read import SlotRead
from mooring.nn.slot_update import UPDATE_NORMS, SlotUpdate, check_update
from mooring.nn.slot_write import SlotWrite
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_count, check_flag, check_log_weight, described
from mooring.ops.state import nothing_as_zero

# The only type of a module with one width for all; users never see it, and may have a type of this name.
SHARED = "shared"


class View(NamedTuple):
    """The nodes of one type in one pass: their part of the module, features, routes, who writes and who reads."""

    part: Any
    seen: Tensor
    routes: Routes | None
    plan: Plan
    writes: Tensor | None
    reads: Tensor | None
    log_weight: Tensor | None


@lazy_channels("parts.{}.integrate.lin_node.weight")
class HeteroSlotVirtualNode(nn.Module):
    r"""Features of several node types -> the same, updated through one memory that all of them write and read.

    Every type writes to the same slots through projections of its own, and the states of the types are merged:

    .. math::
        Z = \operatorname{update}\Big(\bigoplus_t \operatorname{write}_t(X_t)\Big), \qquad
        X_t' = \operatorname{FiLM}_t(X_t, \operatorname{read}_t(X_t, Z))

    The merge is exact: with projections shared by all types this is :class:`~mooring.nn.SlotVirtualNode` on the nodes
    of all types together.

    Args:
        channels: width of the features of each type, ``{type: channels}``, with projections for each type; or one
            width, with projections that all types share. A width of -1 is taken from the first input.
        slots, heads: as in :class:`~mooring.nn.SlotVirtualNode`.
        memory_channels: width of the slots; if None, the largest width of any type, none of which may be -1.
        anchored, temperature, routing, competition, dropout: as in :class:`~mooring.nn.SlotVirtualNode`.
        graph_channels: width of the ``graph_features`` that forward then takes, as there.
        update: further arguments of :class:`~mooring.nn.SlotUpdate`.
        hidden_channels: hidden width of FiLM; a quarter of the type's channels (at least 16) if None.
        init_std: deviation of FiLM's last weights.

    Shapes: x_dict ``{type: [nodes, channels]}``, batch_dict ``{type: [nodes]}`` -> ``{type: [nodes, channels]}``.

    A type without nodes, or absent from a call, writes nothing. Nodes left out have no influence, as in
    :class:`~mooring.nn.SlotVirtualNode`.

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
        called = "channels" if memory_channels is None else "memory_channels"
        memory_channels = max(widths.values()) if memory_channels is None else memory_channels
        check_build(who, memory_channels, slots, heads, called)
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
        self.update = SlotUpdate(memory_channels, slots, heads, anchored=anchored, **update)
        # By name, so that weights find their type whatever the order; names of types may hold dots, of modules not.
        self.parts = nn.ModuleDict()
        self.types = {name: ModuleDict.to_internal_key(name) for name in widths}
        for name, width in widths.items():
            hidden = max(width // 4, 16) if hidden_channels is None else hidden_channels
            part = nn.Module()
            part.project = nn.Identity() if width == memory_channels else nn.Linear(width, memory_channels, bias=False)
            addresses = None
            if self.routing == "self":
                addresses = SelfAddresses(memory_channels, slots, heads, memory_channels // heads, temperature)
            part.write = SlotWrite(
                memory_channels, slots, heads, temperature=temperature, addresses=addresses, competition=competition
            )
            scores: dict[str, Any] = {"temperature": temperature} if addresses is None else {"by_address": True}
            part.read = SlotRead(memory_channels, slots, heads, out_channels=hidden, **scores)
            part.integrate = SlotFiLM(width, hidden, init_std=init_std)
            self.parts[self.types[name]] = part
        if len(self.parts) < len(widths):
            named = ", ".join(map(repr, widths))
            raise ValueError(f"{who}: two of the types {named} have one name but for a dot or '#'. Rename one.")
        self.graph_channels = graph_channels
        self.graph = build_graph_features(who, graph_channels, slots, memory_channels)
        self._share()
        self.register_load_state_dict_post_hook(_tie)

    def _share(self) -> None:
        """What concerns the slots alone is the first part's, also after a wrapper has taken its place there."""
        first = self._first()
        parts: Any = self.parts.values()
        by_address = self.routing == "self"
        for part in parts:
            for mine, lent, names in (
                (part.write, first.write, ("null_logit",) if by_address else ("slot", "lin_query", "null_logit")),
                (part.read, first.read, ("lin_value",) if by_address else ("lin_key", "lin_value")),
                (part.write.addresses, first.write.addresses, ("slot",) if by_address else ()),
            ):
                for name in names:
                    value = getattr(lent, name)
                    # A parametrised slot is computed at each call: forward hands it over.
                    computed = isinstance(value, Tensor) and not isinstance(value, nn.Parameter)
                    if getattr(mine, name) is not value and not computed:
                        setattr(mine, name, value)

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
        """Arguments as in :class:`~mooring.nn.SlotVirtualNode`, those of nodes by type; types left out have no mask.

        The weights of the :class:`~mooring.nn.SlotMemory` have the nodes of one type after those of the other, in the
        order of ``x_dict``.
        """
        return_state = check_return_state(type(self).__name__, return_state)
        if not torch.compiler.is_compiling():
            self._share()
        given: dict[str, Any] = {"batch_dict": batch_dict, "ptr_dict": ptr_dict, "sources": sources}
        given |= {"plan_dict": plan_dict, "targets": targets, "log_weight": log_weight}
        for name, one in {"x_dict": x_dict, **given}.items():
            if not (isinstance(one, Mapping) or (one is None and name != "x_dict")):
                raise TypeError(
                    f"{type(self).__name__}: {name} is {described(one)} but a dictionary by node type was expected. "
                    "Pass {type: tensor}."
                )
        given = {name: one or {} for name, one in given.items()}
        self._check(x_dict, given)
        plans = plans_by_type(
            type(self).__name__, x_dict, given["batch_dict"], given["ptr_dict"], given["plan_dict"], num_graphs
        )
        size = (next(iter(plans.values())).num_graphs, self.slots, self.memory_channels)
        carried = carried_slots(type(self).__name__, memory, size, next(iter(x_dict.values())))
        x, who = next(iter(x_dict.values())), type(self).__name__
        check_graph_features(who, graph_features, x, size[0], self.graph_channels)
        slot = gathered(self._first().write, "slot_address")
        masks = [given[key] for key in ("sources", "targets", "log_weight")]
        views = {
            name: self._view(name, x, slot, plans[name], *(mask.get(name) for mask in masks))
            for name, x in x_dict.items()
        }
        own = gathered(self._first().write, "identity") if carried is None else carried
        states = [
            view.part.write(
                view.seen,
                view.plan,
                address=view.routes,
                sources=view.writes,
                log_weight=view.log_weight,
                slots=own,
            )
            for view in views.values()
        ]
        state = states[0] if len(states) == 1 else ops.merge(*states)
        slots = self.update(state, own)
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = {name: self._read(x_dict[name], view, slots) for name, view in views.items()}
        if not return_state:
            return out
        whole = SlotMemory(state, slots)
        if return_state == "slots":
            return out, whole
        weights = [self._weights(view, one, whole, own) for view, one in zip(views.values(), states, strict=True)]
        written, read = (torch.cat(one) for one in zip(*weights, strict=True))
        anchor = gathered(self.update, "anchor_weight", state) if self.anchored else None
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
        """What is left out is hidden before anything is multiplied with it, as in the module for one type."""
        part = self._part(name)
        writes = writers(sources, log_weight)
        reads = readers(sound_nodes(x, None, writes), targets)
        takes_part = None if writes is None or reads is None else writes | reads
        if self.training and self.dropout:
            log_weight = add_log_weights(log_weight, drop_writes(x, self.slots, self.heads, self.dropout))
        seen = part.project(hide(x, takes_part))
        routes = gathered(part.write, "routes", seen, None, slot)
        return View(part, seen, routes, plan, writes, reads, log_weight)

    def _weights(self, view: View, own: SlotState, whole: SlotMemory, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Write and read weights of one type: its own softmax times its share of the mass, and its reads."""
        part, seen, routes, plan, writes, reads, log_weight = view
        if writes is not None:
            log_weight = torch.zeros_like(seen[:, 0]) if log_weight is None else log_weight
            absent = ~writes if log_weight.dim() == 1 else ~writes[:, None, None]
            log_weight = log_weight.masked_fill(absent, float("-inf"))
        given = {
            "address": hide_address(routes, writes),
            "slots": slots,
            "log_weight": log_weight,
        }
        written = gathered(part.write, "weights", own, hide(seen, writes), plan, **given)
        share = (own.log_mass - nothing_as_zero(whole.state.log_mass)).exp().index_select(0, plan.index)
        read = gathered(part.read, "weights", hide(seen, reads), whole.slots, plan, hide_address(routes, reads))
        return written * share, read if reads is None else read.masked_fill(~reads[:, None, None], 0.0)

    def _read(self, x: Tensor, view: View, slots: Tensor) -> Tensor:
        seen, routes = hide(view.seen, view.reads), hide_address(view.routes, view.reads)
        context = view.part.read(seen, slots, view.plan, address=routes, targets=view.reads)
        if self.training and self.dropout:
            context = nn.functional.dropout(context, self.dropout)
        out: Tensor = view.part.integrate(hide(x, view.reads), context, slots, view.plan.batch)
        return out if view.reads is None else torch.where(view.reads.unsqueeze(-1), out, x)

    def _part(self, name: str) -> Any:
        return self.parts[self.types[SHARED if self.shared else name]]

    def _check(self, x_dict: Mapping[str, Tensor], given: Mapping[str, Mapping[str, Any]]) -> None:
        """Types, shapes, dtypes and devices of everything but the batches."""
        who = type(self).__name__
        if not x_dict:
            raise ValueError(f"{who}: x_dict has no node type. Pass the features of at least one.")
        for name, x in x_dict.items():
            if name not in self.types and not self.shared:
                known = ", ".join(map(repr, self.types))
                raise ValueError(f"{who}: x_dict has {name!r} but the module was built for {known}.")
            check_features(self, self.channels[SHARED if self.shared else name], x, f"x of {name!r}")
        for argument, mapping in given.items():
            unknown = [name for name in mapping if name not in x_dict]
            if unknown:
                raise ValueError(f"{who}: {argument} has {unknown[0]!r} but x_dict has not. Pass features for it too.")
        rows = (self.slots, self.heads)
        for name, x in x_dict.items():
            masks = {key: given[key].get(name) for key in ("sources", "targets", "log_weight")}
            check_nodes(f"{who}, type {name!r}", x, **masks, rows=rows)
            check_log_weight(f"{who}, type {name!r}", masks["log_weight"], x.size(0), rows)

    def __repr__(self) -> str:
        channels = self.channels[SHARED] if self.shared else self.channels
        parts: Any = self.parts.values()
        widest = max(part.integrate.channels for part in parts)
        memory = None if self.memory_channels == widest else self.memory_channels
        given: dict[str, Any] = {"memory_channels": memory, "update": self.update_options}
        given["routing"] = None if self.routing == DEFAULT_ROUTING else self.routing
        given["temperature"] = None if self.temperature == TEMPERATURES[self.routing] else self.temperature
        return shown(self, HeteroSlotVirtualNode, channels, "heads", "anchored", **given)


def _tie(module: HeteroSlotVirtualNode, _: Any) -> None:
    """Loading with ``assign=True`` gives every part slots of its own."""
    module._share()
