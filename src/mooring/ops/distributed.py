"""One memory for a graph whose nodes are spread over processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mooring.ops.state import SlotState, check_state


class _SumOverRanks(torch.autograd.Function):
    """All-reduce whose gradient is an all-reduce: every rank's loss depends on every rank's part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        total = _copy(part)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _SumOverRanks.apply(grads[0], ctx.group), None


def _copy(tensor: Tensor) -> Tensor:
    """A copy in row order: a collective adds up what lies in memory, and ranks may hold their states in any order."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def all_merge(state: SlotState, group: dist.ProcessGroup | None = None) -> SlotState:
    r"""Each rank's state of its own nodes -> on every rank, the state of all nodes, exactly.

    Two all-reduces of the size of the state, whatever the number of nodes: the largest log-mass, then masses and
    weighted contents relative to it. Differentiable; gradients are those of the *sum* of all ranks' losses, so a
    trainer that averages gradients over ranks (DDP) wants each rank's loss multiplied by the number of ranks.

    A rank without nodes passes the state of the empty set and receives the same memory as the others. Every rank must
    run the forward and the backward, that one too: a collective waits for all. A loss that every rank computes alike
    from the merged state counts once for each of them; give it to one rank.

    Args:
        state: every rank with the same graphs, slots, heads and width.
        group: the process group; the default one if None.
    """
    check_state("all_merge", "state", state)
    dtype = state.content.dtype
    # The gradients of a rank's content and mass nearly cancel in its scores, so neither may be rounded on the way; the
    # state is small next to the nodes.
    state = SlotState(state.content.double(), state.log_mass.double())
    top = _copy(state.log_mass)
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
    top = torch.where(top.isneginf(), 0.0, top)
    mass = (state.log_mass - top).exp().unsqueeze(-1)
    total = _SumOverRanks.apply(torch.cat([mass * state.content, mass], dim=-1), group)
    weighted, mass = total[..., :-1], total[..., -1]
    empty = mass == 0
    content = weighted / torch.where(empty, 1.0, mass).unsqueeze(-1)
    log_mass = torch.where(empty, float("-inf"), torch.where(empty, 1.0, mass).log() + top)
    return SlotState(content.to(dtype), log_mass.to(dtype))
