"""The network of the task: scales of its own, encodings, one number per node; and the metric."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from mooring import SlotVirtualNode
from mooring.suite.meshes import MeshNet, relative_errors
from mooring.suite.meshes.model import octaves
from support import assert_close, assert_finite

EDGES = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 0, 4, 0]])
BATCH = torch.tensor([0, 0, 0, 1, 1])


def net(waves: int = 0) -> MeshNet:
    memory = partial(SlotVirtualNode, slots=3, heads=2)
    options = {"conv": "MeshGraphNetConv", "norm": "layer", "pre_norm": True, "memory": memory}
    return MeshNet(7, 8, 2, waves=waves, **options).double()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(5, 7, dtype=torch.float64), EDGES, torch.randn(5, 3, dtype=torch.float64)


@pytest.mark.parametrize("waves", [0, 2])
def test_one_number_per_node_and_the_memory_that_gave_it(waves: int) -> None:
    model, (x, edges, edge_attr) = net(waves), inputs()
    out = model(x, edges, edge_attr, BATCH)
    assert out.shape == (5,)
    again, kept = model(x, edges, edge_attr, BATCH, return_state=True)
    assert_close(again, out)
    assert kept[0].slots.shape == (2, 3, 8)


def test_a_change_of_units_is_scaled_away() -> None:
    model, (x, edges, edge_attr) = net(), inputs()
    y = torch.randn(5, dtype=torch.float64)
    model.fit_scale(x, y)
    out = model(x, edges, edge_attr, BATCH)
    model.fit_scale(5.0 * x + 3.0, 7.0 * y)
    assert_close(model(5.0 * x + 3.0, edges, edge_attr, BATCH), 7.0 * out)


def test_a_constant_column_and_a_zero_solution_are_left_as_they_are() -> None:
    model, (x, edges, edge_attr) = net(), inputs()
    x[:, 4] = 2.0
    model.fit_scale(x, torch.zeros(5, dtype=torch.float64))
    assert_finite(model(x, edges, edge_attr, BATCH))


def test_positions_are_told_apart_by_their_octaves() -> None:
    shown = octaves(torch.tensor([[0.0, 0.5]]), 2)
    assert_close(shown, torch.tensor([[0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, -1.0]]))
    assert net(2).position.lin.in_features == shown.size(1)


def test_the_error_is_relative_and_of_one_mesh_at_a_time() -> None:
    solution = torch.tensor([3.0, 4.0, 2.0, 0.0])
    batch = torch.tensor([0, 0, 1, 2])
    prediction = torch.tensor([3.0, 1.0, 2.0, 0.0], requires_grad=True)
    found = relative_errors(prediction, solution, batch, 3)
    assert found.tolist() == pytest.approx([3.0 / 5.0, 0.0, 0.0], abs=1e-6)
    found.sum().backward()
    assert_finite(prediction.grad)


def test_a_mesh_of_another_physics_is_refused() -> None:
    model, (x, edges, edge_attr) = net(), inputs()
    with pytest.raises(ValueError, match="MeshNet: x has 6 features but 7 were expected"):
        model(x[:, :6], edges, edge_attr, BATCH)
