"""Positions of the nodes of a graph: connected components laid out by stress, side by side."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Nodes are placed by their distances to this many nodes, which are drawn once.
PIVOTS = 80
ROUNDS = 60
DENSE = 400
# Two nodes nearer than this, in hops, are pushed apart.
ROOM = 0.8


def layout(num_nodes: int, edge_index: Int[Tensor, "2 edges"]) -> Float[Tensor, "nodes 2"]:
    r"""Graph -> positions in which distances are close to numbers of hops.

    .. math::
        \min_x \sum_{i,\, p} d_{ip}^{-2} \bigl(\lVert x_i - x_p \rVert - d_{ip}\bigr)^2

    over the pivots :math:`p`, starting from their classical scaling. Copies of a component are laid out alike, and
    components in rows, large ones first.

    >>> layout(3, torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """
    neighbours = neighbour_lists(num_nodes, edge_index)
    parts = components(neighbours)
    return _in_rows(num_nodes, parts, [_part(part, neighbours) for part in parts])


def neighbourhood(num_nodes: int, edge_index: Int[Tensor, "2 edges"], size: int) -> Int[Tensor, " size"]:
    """Return the ``size`` nodes nearest to node 0, followed by other components if its own is smaller."""
    neighbours = neighbour_lists(num_nodes, edge_index)
    nodes: dict[int, None] = {}
    for start in range(num_nodes):
        if start not in nodes and len(nodes) < size:
            nodes |= dict.fromkeys(node for node, _ in islice(hops(start, neighbours), size - len(nodes)))
    return torch.tensor(sorted(nodes))


def neighbour_lists(num_nodes: int, edge_index: Int[Tensor, "2 edges"]) -> list[list[int]]:
    """Return the neighbours of each node in ascending order, along edges in either direction."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    # One number per pair, because sorting pairs is slow.
    pairs = (both[0] * num_nodes + both[1])[both[0] != both[1]].unique()
    sizes = torch.bincount(pairs // max(num_nodes, 1), minlength=num_nodes)
    return [part.tolist() for part in (pairs % max(num_nodes, 1)).split(sizes.tolist())]


def components(neighbours: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the connected components of a graph, large ones first, each in ascending order."""
    seen: set[int] = set()
    parts = []
    for start in range(len(neighbours)):
        if start not in seen:
            parts.append(sorted(node for node, _ in hops(start, neighbours)))
            seen.update(parts[-1])
    return sorted(parts, key=len, reverse=True)


def hops(start: int, neighbours: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the nodes that can be reached from a node with their distances, near ones first."""
    seen, queue = {start}, deque([(start, 0)])
    while queue:
        node, distance = queue.popleft()
        yield node, distance
        for neighbour in neighbours[node]:
            if neighbour not in seen:
                seen.add(neighbour)
                queue.append((neighbour, distance + 1))


def _part(part: list[int], neighbours: Sequence[Sequence[int]]) -> Float[Tensor, "nodes 2"]:
    """Lay out one component, centred and turned so that it is wider than high."""
    count = len(part)
    if count == 1:
        return torch.zeros(1, 2)
    generator = torch.Generator().manual_seed(0)
    pivots = torch.randperm(count, generator=generator)[:PIVOTS]
    columns = []
    for pivot in pivots.tolist():
        distance = dict(hops(part[pivot], neighbours))
        columns.append([distance[node] for node in part])
    distances = torch.tensor(columns, dtype=torch.float).t()
    x = _scaling(distances) + 0.05 * torch.randn(count, 2, generator=generator)
    for step in range(ROUNDS):
        x = _less_stress(x, x[pivots], distances)
        # All pairs are costly in a large graph.
        if count <= DENSE or step % 5 == 4:
            x = _apart(x)
    x = x - x.mean(dim=0)
    _, _, axes = torch.linalg.svd(x, full_matrices=False)
    return x @ axes.t()


def _scaling(hops: Float[Tensor, "nodes pivots"]) -> Float[Tensor, "nodes 2"]:
    """Return the classical scaling of the distances to the pivots."""
    square = hops.square()
    centred = -0.5 * (square - square.mean(0) - square.mean(1, keepdim=True) + square.mean())
    left, scale, _ = torch.linalg.svd(centred, full_matrices=False)
    x = torch.zeros(len(hops), 2)
    axes = left[:, :2] * scale[:2]
    x[:, : axes.size(1)] = axes / axes.std().clamp(min=1e-6) * hops.mean()
    return x


def _less_stress(
    x: Float[Tensor, "nodes 2"], pivot: Float[Tensor, "pivots 2"], hops: Float[Tensor, "nodes pivots"]
) -> Float[Tensor, "nodes 2"]:
    """Move every node to the weighted mean of the targets that its distances to the pivots give: a step less stress."""
    offset = x.unsqueeze(1) - pivot
    length = offset.norm(dim=-1).clamp(min=1e-6)
    weight = torch.where(hops > 0, hops.clamp(min=1).pow(-2), 0.0)
    target = pivot + offset * (hops / length).unsqueeze(-1)
    return (weight.unsqueeze(-1) * target).sum(1) / weight.sum(1, keepdim=True)


def _apart(x: Float[Tensor, "nodes 2"]) -> Float[Tensor, "nodes 2"]:
    """Push nodes away from each other that are too close."""
    distance = torch.cdist(x, x)
    push = (ROOM / distance.clamp(min=1e-3) - 1.0).clamp(min=0.0, max=4.0).fill_diagonal_(0.0)
    return x + 0.25 * (push.sum(1, keepdim=True) * x - push @ x)


def _in_rows(num_nodes: int, parts: list[list[int]], placed: list[Tensor]) -> Float[Tensor, "nodes 2"]:
    """Place boxes around the components from left to right in rows that together are about as wide as high."""
    boxes = [(x.amin(0), x.amax(0) - x.amin(0) + 1.5) for x in placed]
    area = sum(float(size.prod()) for _, size in boxes)
    widest = max((float(size[0]) for _, size in boxes), default=0.0)
    limit = max(1.05 * widest, 1.4 * math.sqrt(area))
    out = torch.zeros(num_nodes, 2)
    left, top, height = 0.0, 0.0, 0.0
    for part, x, (corner, size) in zip(parts, placed, boxes, strict=True):
        if left and left + float(size[0]) > limit:
            left, top, height = 0.0, top + height, 0.0
        out[part] = x - corner + torch.tensor([left, top])
        left, height = left + float(size[0]), max(height, float(size[1]))
    return out
