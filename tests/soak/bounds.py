"""How far two computations of one input may differ by rounding alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from inputs import Nodes
from subjects import DIM, HEADS, SLOTS, VDIM, Subject, keys_and_values
from torch import Tensor

from mooring.nn.slot_update import LOG_ODDS_FLOOR

# Roundings on the way from an input to an output; the largest seen stays several times below.
SLACK = 64.0
LAYER_NORM_EPS = 1e-5


class Bounds(NamedTuple):
    """Allowed differences of the rows that come out, and of gradients; relative to the largest entry."""

    rows: Tensor | float
    gradient: float


def bounds(subject: Subject, nodes: Nodes, by_graph: Tensor | None, *, exact: bool = False) -> Bounds:
    """The rounding of a score is that of its products, and the softmax passes it on as a relative error of weights.

    Args:
        by_graph: what the subject returned for graphs, if anything.
        exact: the other computation is in float64; else both are in the dtype of the nodes. A log weight so large that
            it swallows the score in both of them is the same number in both, and adds no error.
    """
    dtype = nodes.x.dtype
    rounding = torch.finfo(dtype).eps
    if not subject.is_op:
        size = _module_size(nodes, rounding, subject, exact)
        steepness = _steepness(nodes) if subject.standardises else 1.0
        return Bounds(SLACK * rounding * size, SLACK * rounding * size * size * steepness)
    kept = torch.float32 if dtype == torch.bfloat16 else dtype
    statistics = torch.finfo(kept).eps
    if subject.name == "read":
        key = nodes.table[:, : SLOTS * HEADS * DIM].unflatten(1, (SLOTS, HEADS, DIM)).double().abs()
        query = nodes.x.unflatten(1, (HEADS, DIM)).double().abs()
        size = 1.0 + torch.einsum("nhd,nmhd->nmh", query, key[nodes.index]).flatten(1).amax(dim=1, keepdim=True)
        kept_size = size[~nodes.left_out]
        worst = float(kept_size.amax()) if kept_size.numel() else 1.0
        return Bounds(SLACK * statistics * size, SLACK * (rounding + statistics * worst))
    assert by_graph is not None
    heads = 1 if subject.name == "write shared" else HEADS
    key, _ = keys_and_values(nodes.x.double().abs(), heads)
    size = torch.einsum("mhd,nhd->nmh", subject.parameters[0].detach().double().abs(), key.expand(-1, HEADS, -1))
    size = size.flatten(1).amax(dim=1).masked_fill(nodes.left_out, 0.0)
    of_graph = size.new_zeros(nodes.num_graphs).scatter_reduce(0, nodes.index, size, "amax").unsqueeze(1)
    log_mass = by_graph[:, -SLOTS * HEADS :].detach().double().abs()
    log_mass = torch.where(log_mass.isinf(), 0.0, log_mass).nan_to_num(0.0)
    # Heavier than this, a weight leaves nothing of the score. What is merged are rounded log-masses, whose differences
    # count however small the scores are.
    scores = of_graph.clamp(min=1.0) if subject.name == "merge" else of_graph
    swallowed = (torch.finfo(torch.float64).eps if exact else statistics) * log_mass > 8 * scores
    error = 1.0 + of_graph + torch.where(swallowed, 0.0, log_mass)
    content = error.unsqueeze(-1).expand(-1, -1, VDIM).flatten(1)
    mass = 1.0 + of_graph + log_mass
    # Beside the state a merge gives what its anchors make of it, whose logits are small: shares of the softmax and two
    # features of the mass.
    rows = torch.cat([content, content, error, mass, mass, mass] if subject.name == "merge" else [content, mass], dim=1)
    worst = float(error.amax()) if error.numel() else 1.0
    return Bounds(SLACK * statistics * rows, SLACK * (rounding + statistics * worst))


def _steepness(nodes: Nodes) -> float:
    """Return the largest slope of standardising a node, by which the rounding of its gradient is multiplied."""
    kept = nodes.x[~nodes.left_out].double()
    if not kept.numel():
        return 1.0
    return max(1.0, float((kept.var(dim=1, correction=0) + LAYER_NORM_EPS).rsqrt().amax()))


def _module_size(nodes: Nodes, rounding: float, subject: Subject, exact: bool) -> float:
    """How large the scores of a module may be, which are linear in features and, where it counts, in the log mass."""
    kept = nodes.x[~nodes.left_out]
    size = 1.0 + (float(kept.abs().amax()) if kept.numel() else 0.0)
    weight = nodes.log_weight
    if subject.log_odds and _is_light(nodes):
        size -= LOG_ODDS_FLOOR
    if weight is None:
        return size
    weight = weight[weight.isfinite()].double()
    weight = weight[(torch.finfo(torch.float64).eps if exact else rounding) * weight.abs() < 8 * size]
    if weight.numel():
        size += float(weight.abs().amax())
        size *= 1.0 + (max(float(weight.amax()), 0.0) if subject.counts else 0.0)
    return size


def _is_light(nodes: Nodes) -> bool:
    """Whether the mass of some graph may be nothing, or as good as nothing."""
    if nodes.log_weight is not None and bool((nodes.log_weight < LOG_ODDS_FLOOR).any()):
        return True
    return nodes.index[~nodes.left_out].unique().numel() < nodes.num_graphs
