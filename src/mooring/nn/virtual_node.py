"""The homogeneous virtual node: one state, the same for every node."""

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
    r"""Node features -> node features updated through one global state, broadcast identically.

    .. math::
        z = s + \operatorname{MLP}_3(s + \operatorname{pool}_i h_i), \qquad
        h_j^+ = h_j + \epsilon \operatorname{MLP}([h_j, z])

    Paper: the VN of ``app:protocol`` (mean pool, three-layer MLP, residual target MLP with scale 0.2).
    Departs: "residual target MLP" can be read as an MLP of node and state (``joint``, here the default) or of the state
    alone, which is the reading of our Two-Radius table.

    Args:
        channels: width of the node features, in and out; -1 takes that of the first input.
        pool: ``"mean"``; ``"sum"``, which counts, as OGB has it; ``"log_sum"``, the same on a logarithmic scale
            (:math:`\operatorname{asinh}`, channel by channel), for graphs whose plain sum would drown everything after
            it; ``"max"``.
        copies: cloned virtual nodes with one initial state and shared updates. They stay equal forever (the paper's
            symmetry lemma), so they add nothing; kept to show it.
        scale: the paper's :math:`\epsilon`.
        joint: let the target MLP see node and state together; False gives it the state alone, so that every node
            gets the same update.

    Shapes: x ``[nodes, channels]``, batch ``[nodes]`` in any order -> ``[nodes, channels]``.

    An empty graph pools to zero. Nodes left out have no influence, as in :class:`~mooring.nn.SlotVirtualNode`.

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
        """Arguments as in :class:`~mooring.nn.SlotVirtualNode`; a homogeneous state has no use for ``address``, and no
        layer goes on from the ``memory`` of another."""
        refuse_memory(type(self).__name__, memory)
        return_state = check_return_state(type(self).__name__, return_state)
        given: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        plan = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **given)
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
    """The state of a slot with a zero query: content is the mean, log_mass the log of the (weighted) count."""
    nothing = x.new_zeros(x.size(0), 1, 0)
    query = x.new_zeros(1, 1, 0)
    writes, value = writers(sources, log_weight), x.unsqueeze(1)
    return ops.write(query, nothing, value, batch, num_graphs=num_graphs, log_weight=log_weight, where=writes)


def pooled_max(
    x: Float[Tensor, "nodes channels"],
    batch: Int[Tensor, " nodes"] | None,
    *,
    sources: Bool[Tensor, " nodes"] | None,
    log_weight: Float[Tensor, " nodes"] | None,
    num_graphs: int,
) -> Float[Tensor, "graphs channels"]:
    """The channel-wise maximum over each graph's sources; zero where there are none."""
    writes = writers(sources, log_weight)
    if writes is not None:
        x = x.masked_fill(~writes.unsqueeze(-1), float("-inf"))
    index = batch if batch is not None else x.new_zeros(x.size(0), dtype=torch.long)
    lowest = x.new_full((num_graphs, x.size(1)), float("-inf"))
    top = lowest.scatter_reduce(0, index.unsqueeze(-1).expand_as(x), x, "amax")
    return torch.where(top.isneginf(), 0.0, top)
