"""Readouts that begin with an MLP on every node, and then pool or write to slots."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation


def lift(channels: int) -> nn.Module:
    """What every readout may do to a node before it meets the others."""
    return nn.Sequential(nn.Linear(channels, 2 * channels), nn.SiLU(), nn.Linear(2 * channels, channels))


class Lifted(nn.Module):
    """An MLP on every node, then an aggregation.

    Shapes: x ``[nodes, dim]`` -> ``[graphs, dim]``.
    """

    def __init__(self, channels: int, aggregate: Aggregation) -> None:
        super().__init__()
        self.lift = lift(channels)
        self.aggregate = aggregate

    def forward(
        self, x: Float[Tensor, "nodes dim"], index: Int[Tensor, " nodes"], *, dim_size: int
    ) -> Float[Tensor, "graphs dim"]:
        return self.aggregate(self.lift(x), index, dim_size=dim_size)


class Pool(nn.Module):
    r"""Nodes of a graph -> one vector: an MLP on every node, one aggregation, a linear map beside an MLP.

    .. math::
        z = W p + \operatorname{MLP}(p), \qquad p = \operatorname{after}(\operatorname{aggregate}_i
        \operatorname{before}(\operatorname{MLP}(h_i)))

    The linear map is there because a count beyond the training range can only be extrapolated along it.

    Args:
        channels: Width of nodes and of the result.
        aggregate: Aggregation of a graph's nodes.
        num_aggregates: How many vectors `aggregate` puts side by side.
        hidden: Width inside the MLP on the pooled vector; it evens out the parameters between readouts.
        before: Applied to every node's vector before pooling.
        after: Applied to the pooled vector.

    Shapes: x ``[nodes, dim]`` -> ``[graphs, dim]``.
    """

    def __init__(
        self,
        channels: int,
        aggregate: Aggregation,
        *,
        hidden: int,
        num_aggregates: int = 1,
        before: Callable[[Tensor], Tensor] | None = None,
        after: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        pooled = num_aggregates * channels
        self.lift = lift(channels)
        self.aggregate = aggregate
        self.linear = nn.Linear(pooled, channels)
        self.deep = nn.Sequential(nn.Linear(pooled, hidden), nn.SiLU(), nn.Linear(hidden, channels))
        self.before = before
        self.after = after

    def forward(
        self, x: Float[Tensor, "nodes dim"], index: Int[Tensor, " nodes"], *, dim_size: int
    ) -> Float[Tensor, "graphs dim"]:
        lifted = self.lift(x)
        if self.before is not None:
            lifted = self.before(lifted)
        pooled = self.aggregate(lifted, index, dim_size=dim_size)
        if self.after is not None:
            pooled = self.after(pooled)
        return self.linear(pooled) + self.deep(pooled)
