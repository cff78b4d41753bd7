"""What comes out of one run, forward and backward, and whether two runs agree."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from bounds import Bounds
from inputs import Nodes
from subjects import Subject
from torch import Tensor


class Outcome(NamedTuple):
    """Rows of nodes and of graphs that came out, and the gradients of the loss."""

    by_node: Tensor | None
    by_graph: Tensor | None
    grad_node: Tensor | None = None
    grad_graph: Tensor | None = None
    grad_shared: Tensor | None = None


def outcome(
    tested: Subject, nodes: Nodes, parameters: tuple[Tensor, ...] | None = None, *, slopes: bool = True
) -> Outcome:
    """Run forward and, if slopes are wanted, backward."""
    parameters = tested.parameters if parameters is None else parameters
    if not slopes:
        with torch.no_grad():
            return Outcome(*tested.run(parameters, nodes))
    x, table = (tensor.detach().clone().requires_grad_() for tensor in (nodes.x, nodes.table))
    weight = None if nodes.log_weight is None else nodes.log_weight.detach().clone().requires_grad_()
    by_node, by_graph = tested.run(parameters, replace(nodes, x=x, table=table, log_weight=weight))
    loss = torch.zeros((), dtype=torch.float64)
    if by_node is not None:
        # Picked out and not multiplied by zero: rows of nodes left out may hold NaN.
        kept = (~nodes.left_out).nonzero().squeeze(1)
        loss = loss + (by_node.index_select(0, kept).double() * nodes.node_slope[kept]).sum()
    if by_graph is not None:
        loss = loss + (torch.where(by_graph.isneginf(), 0.0, by_graph).double() * nodes.graph_slope).sum()
    leaves = [x, table, *([] if weight is None else [weight]), *parameters]
    if loss.requires_grad:
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    else:  # the oracle met no node
        grads = tuple(torch.zeros_like(leaf) for leaf in leaves)
    of_nodes = [grads[0], *([] if weight is None else [grads[2].unsqueeze(1)])]
    shared = grads[2 if weight is None else 3 :]
    return Outcome(
        None if by_node is None else by_node.detach(),
        None if by_graph is None else by_graph.detach(),
        torch.cat(of_nodes, dim=1),
        grads[1],
        torch.cat([grad.flatten() for grad in shared]) if shared else x.new_zeros(0),
    )


def differences(nodes: Nodes, one: Outcome, other: Outcome, allowed: Bounds) -> list[str]:
    """The parts in which two outcomes differ by more than rounding; rows of nodes left out are their own affair."""
    found = []
    writes = ~nodes.left_out
    for what in Outcome._fields:
        mine, others = getattr(one, what), getattr(other, what)
        if mine is None or others is None:
            continue
        limit = allowed.rows if what.startswith("by") else allowed.gradient
        if what == "by_node":
            mine, others = mine[writes], others[writes]
            limit = limit if isinstance(limit, float) else limit[writes]
        if not close(mine, others, limit):
            found.append(what)
    return found


def close(one: Tensor, other: Tensor, allowed: Tensor | float) -> bool:
    """Within what is allowed of one, or of the largest if that is more."""
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    one, other = one.double(), other.double()
    largest = torch.where(other.isfinite(), other.abs(), 1.0).amax().clamp(min=1.0)
    if isinstance(allowed, Tensor):
        largest = largest.clamp(max=10.0)  # rows of graphs have masses of any size, and bounds of their own
    return bool(((one == other) | ((one - other).abs() <= allowed * largest)).all())
