"""Pictures of a mesh and of what the slots of a trained memory cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from mooring import SlotVirtualNode, VirtualNode
from mooring.suite.meshes.data import PlateSettings, generate
from mooring.suite.meshes.pictures import COLOURS, draw, draw_run, slot_shares
from mooring.suite.train import RunRequest, resolve, run_one

pytest.importorskip("skfem", reason="solutions are made by scikit-fem: pip install 'mooring[meshes]'")


def test_shares_are_what_a_node_writes_to_each_slot() -> None:
    memory = SlotVirtualNode(8, slots=3, heads=2)
    batch = torch.tensor([0, 1, 0, 0, 1])
    state = memory(torch.randn(5, 8), batch, return_state=True)[1]
    shares = slot_shares(state, batch)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-9)
    mass = state.write_weights.double() * state.state.log_mass.double().exp()[batch]
    expected = (mass / mass.sum(dim=1, keepdim=True)).detach().numpy()
    # Heads of self-addressed slots differ in temperature; the first is the sharpest.
    np.testing.assert_allclose(shares, expected[:, :, 0], rtol=1e-5)
    assert np.square(expected[:, :, 0]).sum() > np.square(expected[:, :, 1]).sum()


def test_a_memory_without_slots_is_refused() -> None:
    _, state = VirtualNode(8)(torch.randn(5, 8), return_state=True)
    with pytest.raises(ValueError, match="this memory has no slots that nodes write to"):
        slot_shares(state, torch.zeros(5, dtype=torch.long))


def area(corners: np.ndarray) -> np.ndarray:
    x, y = np.moveaxis(corners.astype(float), -1, 0)
    return 0.5 * (x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)


def test_colour_is_the_slot_and_paleness_the_doubt() -> None:
    mesh = generate(PlateSettings(nodes=(40, 60), holes=(0, 0)), "test", 0, 0)
    shares = np.zeros((len(mesh.position), 4))
    shares[:, 2] = 1.0
    figure = draw(mesh, mesh.solution, shares)
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [panel.get_title(loc="left") for panel in panels][2:] == [
        "difference, 0% of the solution",
        "the slot a node writes to: 1 of 4",
    ]
    (cells,) = panels[3].collections
    np.testing.assert_allclose(cells.get_facecolor()[:, :3], np.tile(COLOURS[2], (mesh.cells.size, 1)))
    # The thirds of all triangles are the plate.
    thirds = np.array([path.vertices[:4] for path in cells.get_paths()])
    assert np.abs(area(thirds)).sum() == pytest.approx(np.abs(area(mesh.position[mesh.cells.T])).sum(), rel=1e-5)
    doubtful = draw(mesh, mesh.solution, np.full_like(shares, 0.25))
    (cells,) = [axes for axes in doubtful.axes if axes.get_title(loc="left")][3].collections
    np.testing.assert_allclose(cells.get_facecolor()[:, :3], np.tile(to_rgb("white"), (mesh.cells.size, 1)))


@pytest.mark.parametrize(("model", "panels"), [("anchored", 4), ("vn", 3)])
def test_a_trained_run_is_drawn(model: str, panels: int, tmp_path: Path) -> None:
    request = RunRequest("meshes", model, 0, "tiny", {}, tmp_path)
    run_one(request)
    figure = draw_run(resolve(request).folder, 1, split="holes")
    assert len([axes for axes in figure.axes if axes.get_title(loc="left")]) == panels
