"""Slots as a PyG aggregation: a neighbourhood, or a whole graph, is a multiset too."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import reset

from mooring.nn.checks import (
    check_build,
    check_choice,
    check_features,
    check_graph_features,
    check_positive,
    check_return_state,
    check_width_or_none,
    shown,
    sole_plan,
)
from mooring.nn.lazy import lazy_channels
from mooring.nn.memory import SlotMemory, build_graph_features, gathered
from mooring.nn.slot_update import UPDATE_NORMS, MassFeature, MassMap, SlotUpdate, UpdateNorm, check_update
from mooring.nn.slot_write import SlotWrite
from mooring.ops import Plan, checks
from mooring.ops.checks import check_flag
from mooring.ops.plan import make_plan


@lazy_channels("write.lin_value.weight")
class SlotAggregation(Aggregation):
    r"""Multisets -> vectors: write each set into slots, read all slots off through one linear map.

    .. math::
        f(X) = W \, [Z_1(X), \dots, Z_M(X)]

    With anchors the read is injective on bounded multisets of colours, so a convolution that aggregates with it can
    realise a 1-WL refinement. Without them it knows proportions only.

    Paper: ``thm:wlinjective``.

    Args:
        channels: width of the elements; -1 takes that of the first input.
        slots, heads, anchored, temperature, mass, anchor_init, competition: as in :class:`~mooring.nn.SlotVirtualNode`.
        update_norm: ``norm`` of :class:`~mooring.nn.SlotUpdate`.
        mass_map, content_dropout: as in :class:`~mooring.nn.SlotUpdate`; for counts that must hold beyond the training
            range, ``"linear"`` and about a half.
        graph_channels: width of the ``graph_features`` that forward then takes, one row per set.
        out_channels: width of the result; channels if None.

    Shapes: x ``[elements, channels]``, index ``[elements]`` in any order -> ``[sets, out_channels]``. Further axes
    before the channels, such as the heads of an attention layer, are aggregated each on its own:
    ``[elements, heads, channels]`` -> ``[sets, heads, out_channels]``.

    An empty set gives what the anchor values give; it is finite and the same for all of them.

    >>> aggr = SlotAggregation(8, slots=2)
    >>> aggr(torch.randn(5, 8), torch.tensor([0, 0, 2, 2, 2])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int = 4,
        *,
        anchored: bool = True,
        temperature: float = 1.0,
        mass: MassFeature = "softplus",
        out_channels: int | None = None,
        anchor_init: float = 0.0,
        mass_map: MassMap = "mlp",
        update_norm: UpdateNorm = "layer",
        content_dropout: float = 0.0,
        competition: bool = False,
        graph_channels: int | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_build(who, channels, slots, heads)
        check_positive(who, "temperature", temperature)
        anchor: dict[str, Any] = {"mass": mass, "anchor_init": anchor_init, "mass_map": mass_map}
        anchored, _ = check_update(who, anchored=anchored, content_dropout=content_dropout, **anchor)
        check_choice(who, "update_norm", update_norm, UPDATE_NORMS)
        self.channels = channels
        self.slots = slots
        self.heads = heads
        self.anchored = anchored
        self.temperature = temperature
        self.mass = mass
        self.anchor_init = anchor_init
        self.mass_map = mass_map
        self.update_norm = update_norm
        self.content_dropout = content_dropout
        self.competition = check_flag(who, "competition", competition)
        self.write = SlotWrite(channels, slots, heads, temperature=temperature, competition=competition)
        self.update = SlotUpdate(
            channels,
            slots,
            heads,
            anchored=anchored,
            norm=update_norm,
            content_dropout=content_dropout,
            **anchor,
        )
        self.out_channels = check_width_or_none(who, "out_channels", out_channels, channels)
        self.lin = nn.Linear(slots * channels, self.out_channels)
        self.graph_channels = graph_channels
        self.graph = build_graph_features(who, graph_channels, slots, channels)

    def reset_parameters(self) -> None:
        self.write.reset_parameters()
        self.update.reset_parameters()
        self.lin.reset_parameters()
        reset(self.graph)

    def __call__(
        self, x: Tensor, index: Tensor | Plan | None = None, ptr: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        # Before the base class, which asks all three for their sizes.
        who = type(self).__name__
        checks.check_tensor(who, "x", x)
        if kwargs.get("plan") is not None:
            index = sole_plan(who, kwargs.pop("plan"), index=index, ptr=ptr)
        if ptr is not None:
            checks.check_tensor(who, "ptr", ptr)
        if index is not None and not isinstance(index, Plan):
            checks.check_tensor(who, "index", index)
            checks.check_one_for_all(who, "index", index)
        # The base class counts the sets in Python's integers: a plan has done so, and export and meta cannot.
        if isinstance(index, Plan) or x.is_meta or torch.compiler.is_exporting():
            return nn.Module.__call__(self, x, index, ptr, *args, **kwargs)
        return super().__call__(x, index, ptr, *args, **kwargs)

    def forward(
        self,
        x: Tensor,
        index: Tensor | Plan | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        return_state: bool | Literal["slots"] = False,
        *,
        plan: Plan | None = None,
        graph_features: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, SlotMemory]:
        """Arguments as PyG has them, where a :class:`~mooring.ops.Plan` may take the place of ``index``. With
        ``return_state`` also the :class:`~mooring.nn.SlotMemory` of this pass, whose ``write_weights`` are the
        attention of slots to elements. Where ``x`` has further axes it has all sets of their first place, then all of
        the next."""
        who = type(self).__name__
        return_state = check_return_state(who, return_state)
        rows = self._rows(x, dim)
        x = rows.flatten(0, -2)
        check_features(self, self.channels, x)
        if plan is not None:
            index = sole_plan(who, plan, index=index, ptr=ptr)
        ids = index.batch if isinstance(index, Plan) else index
        checks.check_device(who, x=x, index=ids, ptr=ptr)
        elements = rows.size(-2)
        if index is None and ptr is None and dim_size not in (None, 1):
            index = x.new_zeros(elements, dtype=torch.long)
        plan = make_plan(who, index, ptr, elements, dim_size, name="index", count_name="dim_size", device=x.device)
        row_bytes = self.out_channels * x.element_size()
        checks.check_room(who, "dim_size", plan.num_graphs, row_bytes, x.device)
        check_graph_features(who, graph_features, x, plan.num_graphs, self.graph_channels)
        places = rows.shape[:-2]
        sets = plan if not places else _repeated(plan, places.numel())
        if graph_features is not None:
            # Every set has its features, empty ones too.
            shifted = graph_features.repeat(places.numel(), 1)
            out, memory = self._aggregated(x, sets, return_state, shifted)
        else:
            out, memory = self._aggregated(x, sets.compact, return_state)
            out, memory = sets.spread(out), None if memory is None else memory.of_graphs(sets.spread)
        out = out.view(*places, plan.num_graphs, self.out_channels)
        out = out.movedim(-2, dim).contiguous() if places else out
        return (out, memory) if memory is not None else out

    def _aggregated(
        self, x: Tensor, plan: Plan, return_state: bool | Literal["slots"], graph_features: Tensor | None = None
    ) -> tuple[Tensor, SlotMemory | None]:
        """Write all sets and read their slots off; also return the memory if asked for."""
        state = self.write(x, plan)
        slots = self.update(state, gathered(self.write, "identity"))
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = self.lin(slots.flatten(1))
        if not return_state:
            return out, None
        if return_state == "slots":
            return out, SlotMemory(state, slots)
        anchor = gathered(self.update, "anchor_weight", state) if self.anchored else None
        return out, SlotMemory(state, slots, anchor, gathered(self.write, "weights", state, x, plan))

    def _rows(self, x: Tensor, dim: int) -> Tensor:
        """The elements, which lie along ``dim``, next to their channels."""
        if x.dim() < 2 or dim % x.dim() == x.dim() - 1:
            shape = ", ".join(map(str, x.shape))
            raise ValueError(
                f"{type(self).__name__}: x has shape [{shape}] and dim={dim} but elements along dim, any other axes "
                "and channels last were expected. Pass [elements, channels], or move the axes."
            )
        return x.movedim(dim, -2)

    def __repr__(self) -> str:
        out = None if self.out_channels == self.write.channels else self.out_channels
        return shown(self, SlotAggregation, self.channels, "heads", "anchored", out_channels=out)


def _repeated(plan: Plan, times: int) -> Plan:
    """The sets of a plan over and over, each time as sets of their own."""
    first = torch.arange(times, device=plan.device).unsqueeze(1) * plan.num_graphs
    index = (first + plan.index).flatten()
    return Plan(times * plan.num_nodes, times * plan.num_graphs, index, None, plan.device)
