"""Where nodes are drawn: connected parts laid out by stress, side by side."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Distances to this many nodes, drawn once and for all, place the others.
PIVOTS = 80
ROUNDS = 60
DENSE = 400
# Two nodes nearer than this, in hops, are pushed apart.
ROOM = 0.8


def layout(num_nodes: int, edge_index: Int[Tensor, "2 edges"]) -> Float[Tensor, "nodes 2"]:
    r"""Graph -> positions in which distances are close to numbers of hops.

    .. math::
        \min_x \sum_{i,\, p} d_{ip}^{-2} \bigl(\lVert x_i - x_p \rVert - d_{ip}\bigr)^2

    over the pivots :math:`p`, starting from their classical scaling. Copies of a part are laid out alike, and parts
    stand in rows, large ones first.

    >>> layout(3, torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """
    neighbours: list[list[int]] = [[] for _ in range(num_nodes)]
    for one, other in edge_index.t().tolist():
        if one != other:
            neighbours[one].append(other)
            neighbours[other].append(one)
    parts = components(neighbours)
    placed = [_part(part, neighbours) for part in parts]
    return _in_rows(num_nodes, parts, placed)


def components(neighbours: Sequence[Sequence[int]]) -> list[list[int]]:
    """The connected parts of a graph, large ones first, each in ascending order."""
    left = [True] * len(neighbours)
    found = []
    for start in range(len(neighbours)):
        if left[start]:
            part = [node for node, _ in _hops(start, neighbours)]
            for node in part:
                left[node] = False
            found.append(sorted(part))
    return sorted(found, key=len, reverse=True)


def _hops(start: int, neighbours: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The nodes that can be reached from one, with their distances."""
    seen, queue, found = {start}, deque([(start, 0)]), []
    while queue:
        node, distance = queue.popleft()
        found.append((node, distance))
        for other in neighbours[node]:
            if other not in seen:
                seen.add(other)
                queue.append((other, distance + 1))
    return found


def _part(part: list[int], neighbours: Sequence[Sequence[int]]) -> Float[Tensor, "nodes 2"]:
    """One connected part, centred and turned so that it is wider than high."""
    count = len(part)
    if count == 1:
        return torch.zeros(1, 2)
    place = {node: row for row, node in enumerate(part)}
    generator = torch.Generator().manual_seed(0)
    pivots = torch.randperm(count, generator=generator)[:PIVOTS]
    columns = []
    for pivot in pivots.tolist():
        column = [0] * count
        for node, distance in _hops(part[pivot], neighbours):
            column[place[node]] = distance
        columns.append(column)
    hops = torch.tensor(columns, dtype=torch.float).t()
    x = _scaling(hops) + 0.05 * torch.randn(count, 2, generator=generator)
    for step in range(ROUNDS):
        x = _less_stress(x, x[pivots], hops)
        # All pairs are dear in a large graph.
        if count <= DENSE or step % 5 == 4:
            x = _apart(x)
    x = x - x.mean(dim=0)
    _, _, axes = torch.linalg.svd(x, full_matrices=False)
    return x @ axes.t()


def _scaling(hops: Float[Tensor, "nodes pivots"]) -> Float[Tensor, "nodes 2"]:
    """Classical scaling from the distances to the pivots."""
    square = hops.square()
    centred = -0.5 * (square - square.mean(0) - square.mean(1, keepdim=True) + square.mean())
    left, scale, _ = torch.linalg.svd(centred, full_matrices=False)
    x = torch.zeros(len(hops), 2)
    kept = left[:, :2] * scale[:2]
    x[:, : kept.size(1)] = kept / kept.std().clamp(min=1e-6) * hops.mean()
    return x


def _less_stress(
    x: Float[Tensor, "nodes 2"], pivot: Float[Tensor, "pivots 2"], hops: Float[Tensor, "nodes pivots"]
) -> Float[Tensor, "nodes 2"]:
    """Every node moved to the weighted mean of where its distances to the pivots want it."""
    offset = x.unsqueeze(1) - pivot
    length = offset.norm(dim=-1).clamp(min=1e-6)
    weight = torch.where(hops > 0, hops.clamp(min=1).pow(-2), 0.0)
    wanted = pivot + offset * (hops / length).unsqueeze(-1)
    return (weight.unsqueeze(-1) * wanted).sum(1) / weight.sum(1, keepdim=True)


def _apart(x: Float[Tensor, "nodes 2"]) -> Float[Tensor, "nodes 2"]:
    """Nodes that stand too close pushed away from each other."""
    distance = torch.cdist(x, x)
    push = (ROOM / distance.clamp(min=1e-3) - 1.0).clamp(min=0.0, max=4.0).fill_diagonal_(0.0)
    return x + 0.25 * (push.sum(1, keepdim=True) * x - push @ x)


def _in_rows(num_nodes: int, parts: list[list[int]], placed: list[Tensor]) -> Float[Tensor, "nodes 2"]:
    """Boxes around the parts, from left to right in rows that together are about as wide as high."""
    boxes = [(one.amin(0), one.amax(0) - one.amin(0) + 1.5) for one in placed]
    area = sum(float(size.prod()) for _, size in boxes)
    widest = max((float(size[0]) for _, size in boxes), default=0.0)
    limit = max(1.05 * widest, 1.4 * math.sqrt(area))
    out = torch.zeros(num_nodes, 2)
    left, top, height = 0.0, 0.0, 0.0
    for part, one, (corner, size) in zip(parts, placed, boxes, strict=True):
        if left and left + float(size[0]) > limit:
            left, top, height = 0.0, top + height, 0.0
        out[part] = one - corner + torch.tensor([left, top])
        left, height = left + float(size[0]), max(height, float(size[1]))
    return out
