"""Merging the states of a graph whose nodes are distributed over processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mooring.ops.state import SlotState, check_state


class _SumOverRanks(torch.autograd.Function):
    """All-reduce whose backward is an all-reduce, because the loss of every rank depends on every rank's input."""

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
    """Copy to row-major order: collectives ignore strides, and ranks may have different ones."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def all_merge(state: SlotState, group: dist.ProcessGroup | None = None) -> SlotState:
    r"""Merge the states of all ranks exactly; every rank receives the state of all nodes.

    Two all-reduces of the size of the state, independent of the number of nodes: the largest log-mass, then masses and
    weighted contents relative to it. Differentiable; gradients are those of the *sum* of the losses of all ranks. If a
    trainer averages gradients over ranks (DDP), multiply the loss of each rank by the number of ranks.

    A rank without nodes passes the state of the empty set. Every rank, including such a rank, must run the forward and
    the backward: a collective waits for all. If every rank computes the same loss from the merged state, the loss
    counts once per rank; compute it on one rank only.

    Args:
        state: the state of this rank's nodes; graphs, slots, heads and width are the same on all ranks.
        group: the process group; the default one if None.
    """
    check_state("all_merge", "state", state)
    dtype = state.content.dtype
    # Float64: in the gradients of a rank's scores, those of content and mass nearly cancel. The state is small compared
    # with the nodes.
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
