"""One memory for all node types of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring import ops
from mooring.nn.checks import check_build, check_features
from mooring.nn.integrate import SlotFiLM
from mooring.nn.lazy import lazy_channels
from mooring.nn.memory import SlotMemory
from mooring.nn.part import hide, writers
from mooring.nn.slot_read import SlotRead
from mooring.nn.slot_update import SlotUpdate
from mooring.nn.slot_write import SlotWrite
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_count, checks_values
from mooring.ops.plan import make_plan
from mooring.ops.state import nothing_as_zero

SHARED = "shared"


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
        anchored, temperature, competition: as in :class:`~mooring.nn.SlotVirtualNode`.
        update: further arguments of :class:`~mooring.nn.SlotUpdate`.
        hidden_channels: hidden width of FiLM; a quarter of the type's channels (at least 16) if None.
        init_std: deviation of FiLM's last weights.

    Shapes: x_dict ``{type: [nodes, channels]}``, batch_dict ``{type: [nodes]}`` -> ``{type: [nodes, channels]}``.

    A type without nodes, or absent from a call, writes nothing.

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
        temperature: float = 1.0,
        competition: bool = False,
        hidden_channels: int | None = None,
        init_std: float = 1e-3,
        **update: Any,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        widths = dict(channels) if isinstance(channels, Mapping) else {SHARED: channels}
        if not widths:
            raise ValueError(
                f"{who}: channels names no node type. Pass {{type: channels}}, or one width for all types."
            )
        for name, width in widths.items():
            check_count(who, f"channels of {name!r}", width)
        memory_channels = max(widths.values()) if memory_channels is None else memory_channels
        check_build(who, memory_channels, slots, heads)
        self.channels = widths
        self.memory_channels, self.slots, self.heads, self.anchored = memory_channels, slots, heads, anchored
        self.update = SlotUpdate(memory_channels, slots, heads, anchored=anchored, **update)
        # Names of types may hold dots, which names of modules may not.
        self.parts = nn.ModuleList()
        self.types = {name: place for place, name in enumerate(widths)}
        for width in widths.values():
            hidden = max(width // 4, 16) if hidden_channels is None else hidden_channels
            part = nn.Module()
            part.project = nn.Identity() if width == memory_channels else nn.Linear(width, memory_channels, bias=False)
            part.write = SlotWrite(memory_channels, slots, heads, temperature=temperature, competition=competition)
            part.read = SlotRead(memory_channels, slots, heads, out_channels=hidden, temperature=temperature)
            part.integrate = SlotFiLM(width, hidden, init_std=init_std)
            if len(self.parts):
                first: Any = self.parts[0]
                # What concerns the slots alone is the same for all types.
                part.write.slot, part.write.lin_query = first.write.slot, first.write.lin_query
                part.write.null_logit = first.write.null_logit
                part.read.lin_key, part.read.lin_value = first.read.lin_key, first.read.lin_value
            self.parts.append(part)

    def reset_parameters(self) -> None:
        self.update.reset_parameters()
        for part in self.parts:
            for module in part.children():
                reset(module)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        batch_dict: Mapping[str, Tensor | Plan] | None = None,
        *,
        sources: Mapping[str, Tensor] | None = None,
        targets: Mapping[str, Tensor] | None = None,
        log_weight: Mapping[str, Tensor] | None = None,
        num_graphs: int | None = None,
        memory: SlotMemory | None = None,
        return_state: bool = False,
    ) -> dict[str, Tensor] | tuple[dict[str, Tensor], SlotMemory]:
        """Arguments as in :class:`~mooring.nn.SlotVirtualNode`, each by node type; types left out have no mask.

        The weights of the :class:`~mooring.nn.SlotMemory` have the nodes of one type after those of the other, in the
        order of ``x_dict``.
        """
        plans = self._plans(x_dict, batch_dict or {}, num_graphs)
        masks = [mapping or {} for mapping in (sources, targets, log_weight)]
        carried = None if memory is None else memory.slots
        states, seen = [], {}
        for name, x in x_dict.items():
            part = self._part(name)
            seen[name] = part.project(x)
            given = {"sources": masks[0].get(name), "log_weight": masks[2].get(name), "slots": carried}
            states.append(part.write(seen[name], plans[name], **given))
        state = states[0] if len(states) == 1 else ops.merge(*states)
        first: Any = self.parts[0]
        slots = self.update(state, first.write.slot if carried is None else carried)
        out = {
            name: self._read(name, x, seen[name], slots, plans[name], masks[1].get(name)) for name, x in x_dict.items()
        }
        if not return_state:
            return out
        weights = [
            self._weights(name, seen[name], plans[name], part, SlotMemory(state, slots), carried, masks)
            for name, part in zip(x_dict, states, strict=True)
        ]
        writes, reads = (torch.cat(one) for one in zip(*weights, strict=True))
        anchor = ops.anchor_weight(state, self.update.anchor_logit) if self.anchored else None
        return out, SlotMemory(state, slots, anchor, writes, reads)

    def _weights(
        self,
        name: str,
        seen: Tensor,
        plan: Plan,
        part: SlotState,
        whole: SlotMemory,
        carried: Tensor | None,
        masks: Sequence[Mapping[str, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Write and read weights of one type: its own softmax times its share of the mass, and its reads."""
        module, (sources, targets, log_weight) = self._part(name), (mask.get(name) for mask in masks)
        writes = writers(sources, log_weight)
        if writes is not None:
            log_weight = torch.zeros_like(seen[:, 0]) if log_weight is None else log_weight
            absent = ~writes if log_weight.dim() == 1 else ~writes[:, None, None]
            log_weight = log_weight.masked_fill(absent, float("-inf"))
        query, key = module.write.score_parts(hide(seen, writes), None, carried)
        written = ops.write_weights(part, query, key, plan, log_weight=log_weight)
        share = (part.log_mass - nothing_as_zero(whole.state.log_mass)).exp().index_select(0, plan.index)
        asked, kept = module.read.score_parts(hide(seen, targets), whole.slots, None)
        read = ops.read_weights(asked, kept, plan)
        return written * share, read if targets is None else read.masked_fill(~targets[:, None, None], 0.0)

    def _read(self, name: str, x: Tensor, seen: Tensor, slots: Tensor, plan: Plan, targets: Tensor | None) -> Tensor:
        part = self._part(name)
        context = part.read(seen, slots, plan, targets=targets)
        out = part.integrate(x, context, slots, plan.batch)
        return out if targets is None else torch.where(targets.unsqueeze(-1), out, x)

    def _part(self, name: str) -> Any:
        return self.parts[0 if SHARED in self.types and len(self.types) == 1 else self.types[name]]

    def _plans(
        self, x_dict: Mapping[str, Tensor], batch_dict: Mapping[str, Tensor | Plan], num_graphs: int | None
    ) -> dict[str, Plan]:
        """Check the input and plan each type's batch, all with one number of graphs."""
        who = type(self).__name__
        if not x_dict:
            raise ValueError(f"{who}: x_dict has no node type. Pass the features of at least one.")
        for name, x in x_dict.items():
            if name not in self.types and SHARED not in self.types:
                known = ", ".join(map(repr, self.types))
                raise ValueError(f"{who}: x_dict has {name!r} but the module was built for {known}.")
            check_features(self, self.channels[SHARED if SHARED in self.types else name], x)
        unknown = [name for name in batch_dict if name not in x_dict]
        if unknown:
            raise ValueError(f"{who}: batch_dict has {unknown[0]!r} but x_dict has not. Pass features for it too.")
        found = {
            name: make_plan(who, batch_dict.get(name), None, x.size(0), device=x.device, name=f"batch of {name!r}")
            for name, x in x_dict.items()
        }
        count = max(plan.num_graphs for plan in found.values()) if num_graphs is None else num_graphs
        if checks_values() and any(plan.num_graphs > count for plan in found.values()):
            raise ValueError(
                f"{who}: num_graphs is {count} but batch_dict has {max(p.num_graphs for p in found.values())}."
            )
        return {name: plan.with_graphs(count) for name, plan in found.items()}

    def __repr__(self) -> str:
        channels = self.channels.get(SHARED, self.channels)
        return f"{type(self).__name__}({channels}, slots={self.slots}, heads={self.heads}, anchored={self.anchored})"
