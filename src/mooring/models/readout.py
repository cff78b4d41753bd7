"""Readouts: nodes of a graph -> one vector, and the number of nodes as a feature."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.inits import reset

from mooring.nn import SlotAggregation
from mooring.nn.checks import check_choice, check_plan, check_positive, check_width
from mooring.ops import Plan
from mooring.ops.checks import check_count, check_rank

ReadoutName = Literal["mean", "sum", "mean+sum", "slots"]
READOUTS = get_args(ReadoutName)
SLOTS = 8


class Readout(nn.Module):
    r"""Nodes -> one vector per graph.

    .. math::
        \frac1n \sum_i h_i, \qquad \frac1s \sum_i h_i, \qquad \text{both concatenated, or slots}

    The divisor :math:`s` of the sum is the same for all graphs, so counts are preserved. With a typical number of
    nodes, the sum starts as large as the mean.

    Args:
        channels: width of the nodes.
        kind: ``"mean"``, ``"sum"``, ``"mean+sum"``, ``"slots"`` (:class:`~mooring.nn.SlotAggregation` with 8 slots),
            or a custom aggregation from channels to channels.
        typical_size: the divisor.

    Shapes: x ``[nodes, channels]`` -> ``[graphs, out_channels]``. A graph without nodes gives zeros, or the empty-set
    value of the slots.

    >>> Readout(8, "mean+sum")(torch.randn(3, 8), torch.tensor([0, 0, 1])).shape
    torch.Size([2, 16])
    """

    def __init__(self, channels: int, kind: ReadoutName | nn.Module = "mean", *, typical_size: float = 1.0) -> None:
        super().__init__()
        who = type(self).__name__
        self.channels = check_count(who, "channels", channels)
        check_positive(who, "typical_size", typical_size)
        self.typical_size = typical_size
        self.kind = "own" if isinstance(kind, nn.Module) else kind
        self.parts: Any = nn.ModuleDict()
        if isinstance(kind, nn.Module):
            self.parts["own"] = kind
        else:
            check_choice(who, "kind", kind, READOUTS, "an aggregation")
            for name in kind.split("+"):
                self.parts[name] = _aggregation(name, channels)
        self.out_channels = len(self.parts) * channels

    def reset_parameters(self) -> None:
        for part in self.parts.values():
            reset(part)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
    ) -> Float[Tensor, "graphs out_channels"]:
        """Aggregate the nodes; arguments as in :class:`~mooring.nn.SlotVirtualNode`."""
        who = type(self).__name__
        check_rank(who, "x", x, "nodes channels")
        check_width(who, "x", x, "channels", self.channels)
        plan = check_plan(who, x, batch, ptr, plan, num_graphs)
        aggregates = []
        for name, part in self.parts.items():
            pooled = part(x, plan.index, dim_size=plan.num_graphs)
            aggregates.append(pooled / self.typical_size if name == "sum" else pooled)
        return torch.cat(aggregates, dim=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind})"


def _aggregation(name: str, channels: int) -> nn.Module:
    if name == "slots":
        heads = max(heads for heads in (1, 2, 4) if channels % heads == 0)
        return SlotAggregation(channels, SLOTS, heads)
    return MeanAggregation() if name == "mean" else SumAggregation()


def log_size(plan: Plan, typical_size: float) -> Float[Tensor, "graphs 1"]:
    """Return the logarithm of each graph's number of nodes over a typical one; an empty graph counts as one node.

    >>> from mooring import ops
    >>> log_size(ops.plan(torch.tensor([0, 0, 1])), 2.0)
    tensor([[ 0.0000],
            [-0.6931]])
    """
    return (plan.sizes.clamp(min=1).float() / typical_size).log().unsqueeze(1)
