"""The homogeneous virtual node: one state for all nodes of a graph."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mooring import ops
from mooring.nn.checks import check_choice, check_finite, check_input, check_return_state, shown
from mooring.nn.lazy import lazy_channels
from mooring.nn.masks import hide, readers, sound_nodes, writers
from mooring.nn.memory import SlotMemory, refuse_memory
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_count, check_flag

Pool = Literal["mean", "sum", "log_sum", "max"]
POOLS = get_args(Pool)


@lazy_channels("state")
class VirtualNode(nn.Module):
    r"""Node features -> node features updated through one global state, broadcast to all nodes.

    .. math::
        z = s + \operatorname{MLP}_3(s + \operatorname{pool}_i h_i), \qquad
        h_j^+ = h_j + \epsilon \operatorname{MLP}([h_j, z])

    Paper: the VN of ``app:protocol`` (mean pool, three-layer MLP, residual target MLP with scale 0.2).
    Departs: "residual target MLP" can mean an MLP of node and state (``joint``, the default) or of the state alone, as
    in our Two-Radius table.

    Args:
        channels: width of the node features, in and out; -1 takes the width of the first input.
        pool: ``"mean"``; ``"max"``; ``"sum"`` (as in OGB), which preserves counts; ``"log_sum"``, the sum on a
            logarithmic scale (:math:`\operatorname{asinh}` per channel), for large graphs.
        copies: cloned virtual nodes with the same initial state and shared updates. They stay equal (the paper's
            symmetry lemma) and add nothing; the option demonstrates it.
        scale: the paper's :math:`\epsilon`.
        joint: apply the target MLP to node and state; False applies it to the state alone, so that all nodes of a graph
            receive the same update.

    Shapes: x ``[nodes, channels]``, batch ``[nodes]`` in any order -> ``[nodes, channels]``.

    An empty graph pools to zero. Masks act as in :class:`~mooring.nn.SlotVirtualNode`.

    >>> VirtualNode(8, pool="sum")(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    takes_memory: ClassVar[bool] = False

    def __init__(
        self, channels: int, pool: Pool = "mean", copies: int = 1, *, scale: float = 0.2, joint: bool = True
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_count(who, "channels", channels)
        check_count(who, "copies", copies)
        check_choice(who, "pool", pool, POOLS)
        check_finite(who, "scale", scale)
        joint = check_flag(who, "joint", joint)
        self.channels = channels
        self.pool = pool
        self.copies = copies
        self.scale = scale
        self.joint = joint
        self.state = nn.Parameter(torch.empty(copies, channels))
        self.update = nn.Sequential(
            nn.Linear(channels, channels),
            nn.GELU(),
            nn.Linear(channels, channels),
            nn.GELU(),
            nn.Linear(channels, channels),
        )
        self.lin_node = nn.Linear(channels, channels) if joint else None
        self.lin_state = nn.Linear(channels, channels, bias=not joint)
        self.lin_out = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.state)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Tensor | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, " nodes"] | None = None,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        memory: SlotMemory | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> Float[Tensor, "nodes channels"] | tuple[Tensor, SlotMemory]:
        """Return the updated nodes. Arguments are those of :class:`~mooring.nn.SlotVirtualNode`.

        ``address`` is ignored, because there is one state; ``memory`` must be None.
        """
        refuse_memory(type(self).__name__, memory)
        return_state = check_return_state(type(self).__name__, return_state)
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        plan = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **masks)
        compact = plan.compact
        num_graphs = compact.num_graphs
        reads = readers(sound_nodes(x, None, writers(sources, log_weight)), targets)
        mean = pooled_mean(x, compact, sources=sources, log_weight=log_weight)
        if self.pool == "mean":
            pooled = mean.content
        elif self.pool == "sum":
            pooled = mean.total
        elif self.pool == "log_sum":
            pooled = mean.total.asinh()
        else:
            pooled = pooled_max(x, compact.batch, sources=sources, log_weight=log_weight, num_graphs=num_graphs)
        pooled = pooled.view(num_graphs, 1, self.channels).to(self.state.dtype)
        state = self.state + self.update(self.state + pooled)
        shared = self.lin_state(state.mean(dim=1))
        shared = shared.index_select(0, compact.batch) if compact.batch is not None else shared
        hidden = shared if self.lin_node is None else self.lin_node(hide(x, reads)) + shared
        out = x + self.scale * self.lin_out(nn.functional.gelu(hidden)).to(x.dtype)
        if reads is not None:
            out = torch.where(reads.unsqueeze(-1), out, x)
        return (out, SlotMemory(mean, state).of_graphs(plan.spread)) if return_state else out

    def __repr__(self) -> str:
        return shown(self, VirtualNode, self.channels, "pool", "copies")


def pooled_mean(
    x: Float[Tensor, "nodes channels"],
    batch: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    sources: Bool[Tensor, " nodes"] | None = None,
    log_weight: Float[Tensor, " nodes"] | None = None,
    num_graphs: int | None = None,
) -> SlotState:
    """Return the state of a slot with a zero query: the mean, and the log of the (weighted) count."""
    query, key, value = x.new_zeros(1, 1, 0), x.new_zeros(x.size(0), 1, 0), x.unsqueeze(1)
    writes = writers(sources, log_weight)
    return ops.write(query, key, value, batch, num_graphs=num_graphs, log_weight=log_weight, where=writes)


def pooled_max(
    x: Float[Tensor, "nodes channels"],
    batch: Int[Tensor, " nodes"] | None,
    *,
    sources: Bool[Tensor, " nodes"] | None,
    log_weight: Float[Tensor, " nodes"] | None,
    num_graphs: int,
) -> Float[Tensor, "graphs channels"]:
    """Return the maximum per channel over the sources of each graph; zero for a graph without sources."""
    writes = writers(sources, log_weight)
    if writes is not None:
        x = x.masked_fill(~writes.unsqueeze(-1), float("-inf"))
    index = batch if batch is not None else x.new_zeros(x.size(0), dtype=torch.long)
    lowest = x.new_full((num_graphs, x.size(1)), float("-inf"))
    top = lowest.scatter_reduce(0, index.unsqueeze(-1).expand_as(x), x, "amax")
    return torch.where(top.isneginf(), 0.0, top)
