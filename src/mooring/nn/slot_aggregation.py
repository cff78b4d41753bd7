"""Slots as a PyG aggregation, for neighbourhoods and graph readouts."""

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
from mooring.nn.memory import SlotMemory, build_graph_features, call_gathered
from mooring.nn.slot_update import UPDATE_NORMS, MassFeature, MassMap, SlotUpdate, UpdateNorm, check_update
from mooring.nn.slot_write import SlotWrite
from mooring.ops import Plan, checks
from mooring.ops.checks import check_flag
from mooring.ops.plan import make_plan


@lazy_channels("write.lin_value.weight")
class SlotAggregation(Aggregation):
    r"""Multisets -> vectors: write each set into slots, then map all slots to one vector.

    .. math::
        f(X) = W \, [Z_1(X), \dots, Z_M(X)]

    With anchors the map is injective on bounded multisets of colours, so a convolution that aggregates with it can
    realise a 1-WL refinement. Without anchors it depends on proportions only.

    Paper: ``thm:wlinjective``.

    Args:
        channels: width of the elements; -1 takes the width of the first input.
        slots, heads, anchored, temperature, mass, anchor_init, competition: as in :class:`~mooring.nn.SlotVirtualNode`.
        update_norm: ``norm`` of :class:`~mooring.nn.SlotUpdate`.
        mass_map, content_dropout: as in :class:`~mooring.nn.SlotUpdate`; ``"linear"`` and about 0.5 suit counts
            beyond the training range.
        graph_channels: width of the ``graph_features`` argument of forward, one row per set; None if it takes none.
        out_channels: width of the result; channels if None.

    Shapes: x ``[elements, channels]``, index ``[elements]`` in any order -> ``[sets, out_channels]``. Further axes
    before the channels, such as the heads of an attention layer, are aggregated separately:
    ``[elements, heads, channels]`` -> ``[sets, heads, out_channels]``.

    All empty sets have the same finite result, computed from the anchor values.

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
        anchor["content_dropout"] = content_dropout
        anchored, _ = check_update(who, anchored=anchored, **anchor)
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
        self.update = SlotUpdate(channels, slots, heads, anchored=anchored, norm=update_norm, **anchor)
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
        # Checked here, because the base class reads the sizes of all three.
        who = type(self).__name__
        checks.check_tensor(who, "x", x)
        if kwargs.get("plan") is not None:
            index = sole_plan(who, kwargs.pop("plan"), index=index, ptr=ptr)
        if ptr is not None:
            checks.check_tensor(who, "ptr", ptr)
        if index is not None and not isinstance(index, Plan):
            checks.check_tensor(who, "index", index)
            checks.check_one_for_all(who, "index", index)
        # The base class counts sets as Python integers, which fails under export and on meta; a plan has the number.
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
        """Return one vector per set. Arguments are those of PyG; ``index`` may be a :class:`~mooring.ops.Plan`.

        With ``return_state`` also return the :class:`~mooring.nn.SlotMemory`, whose ``write_weights`` are the attention
        of slots to elements. If ``x`` has further axes, the memory has the sets of their first index, then of the next.
        """
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
        axes = rows.shape[:-2]
        sets = plan if not axes else _repeat(plan, axes.numel())
        if graph_features is not None:  # empty sets have features too
            out, memory = self._aggregate(x, sets, return_state, graph_features.repeat(axes.numel(), 1))
        else:
            out, memory = self._aggregate(x, sets.compact, return_state)
            out, memory = sets.spread(out), None if memory is None else memory.of_graphs(sets.spread)
        out = out.view(*axes, plan.num_graphs, self.out_channels)
        out = out.movedim(-2, dim).contiguous() if axes else out
        return (out, memory) if memory is not None else out

    def _aggregate(
        self, x: Tensor, plan: Plan, return_state: bool | Literal["slots"], graph_features: Tensor | None = None
    ) -> tuple[Tensor, SlotMemory | None]:
        """Return one vector per set, and the memory if ``return_state`` is set."""
        state = self.write(x, plan)
        slots = self.update(state, call_gathered(self.write, "identity"))
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = self.lin(slots.flatten(1))
        if not return_state:
            return out, None
        if return_state == "slots":
            return out, SlotMemory(state, slots)
        anchor = call_gathered(self.update, "anchor_weight", state) if self.anchored else None
        return out, SlotMemory(state, slots, anchor, call_gathered(self.write, "weights", state, x, plan))

    def _rows(self, x: Tensor, dim: int) -> Tensor:
        """Move the axis of the elements next to the channels."""
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


def _repeat(plan: Plan, times: int) -> Plan:
    """Repeat the sets of a plan, each time as new sets."""
    first = torch.arange(times, device=plan.device).unsqueeze(1) * plan.num_graphs
    index = (first + plan.index).flatten()
    return Plan(times * plan.num_nodes, times * plan.num_graphs, index, None, plan.device)
