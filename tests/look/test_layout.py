"""Positions that keep near nodes near, apart from each other, and copies alike."""

from __future__ import annotations

import torch
from torch import Tensor

from look.drawable import copies, ring
from mooring.look.layout import components, layout, neighbourhood
from support import assert_close


def path(nodes: int) -> Tensor:
    return torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])


def test_a_path_is_drawn_as_a_line() -> None:
    x = layout(19, path(19))
    steps = (x[1:] - x[:-1]).norm(dim=1)
    assert float(steps.max() / steps.min()) < 1.5
    assert float((x[0] - x[-1]).norm()) > 0.9 * float(steps.sum())


def test_a_grid_keeps_neighbours_nearer_than_the_rest() -> None:
    side = 13
    node = torch.arange(side * side).view(side, side)
    edges = torch.cat([torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()]),
                       torch.stack([node[:-1].flatten(), node[1:].flatten()])], dim=1)  # fmt: skip
    distance = torch.cdist(*[layout(side * side, edges)] * 2)
    near = distance[edges[0], edges[1]].mean()
    assert float(distance.mean() / near) > 4
    assert float(distance.fill_diagonal_(9.0).min()) > 0.2 * float(near), "no two nodes on one spot"


def test_leaves_of_a_star_do_not_fall_onto_each_other() -> None:
    leaves = torch.arange(1, 30)
    x = layout(30, torch.stack([torch.zeros_like(leaves), leaves]))
    assert float(torch.cdist(x, x).fill_diagonal_(9.0).min()) > 0.1


def test_copies_are_drawn_alike_and_side_by_side() -> None:
    graph = ring(17)
    x = layout(51, copies(graph, 3).edge_index).view(3, 17, 2)
    assert_close(x[1] - x[1].mean(0), x[0] - x[0].mean(0), scale=10)
    boxes = [(one.amin(0), one.amax(0)) for one in x]
    for first in range(3):
        for second in range(first):
            (low, high), (other_low, other_high) = boxes[first], boxes[second]
            assert bool((low > other_high).any() or (other_low > high).any()), "boxes overlap"


def test_graphs_without_edges_and_without_nodes_have_a_layout_too() -> None:
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert layout(0, nothing).shape == (0, 2)
    alone = layout(5, nothing)
    assert float(torch.cdist(alone, alone).fill_diagonal_(9.0).min()) > 1


def test_the_same_graph_has_the_same_layout_whatever_the_random_state() -> None:
    first = layout(23, ring(23).edge_index)
    torch.rand(7)
    assert bool((layout(23, ring(23).edge_index) == first).all())


def test_components_are_found() -> None:
    assert components([[1], [0], [], [4], [3, 5], [4]]) == [[3, 4, 5], [0, 1], [2]]


def test_a_neighbourhood_is_connected_while_its_part_of_the_graph_lasts() -> None:
    kept = neighbourhood(1000, path(1000), 30)
    assert kept.tolist() == list(range(30))
    # A pair, then the part that follows.
    both = torch.tensor([[0, 2, 3], [1, 3, 4]])
    assert neighbourhood(9, both, 4).tolist() == [0, 1, 2, 3]
