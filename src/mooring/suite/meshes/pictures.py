"""Pictures of a mesh: solution, prediction and error side by side, and what each slot of a memory covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mooring.nn import SlotMemory
from mooring.suite.look import trained
from mooring.suite.meshes.data import Mesh, collate
from mooring.suite.meshes.experiment import MeshExperiment
from mooring.suite.report.drawing import INK, RC

# Colours that are told apart; slots beyond them repeat one.
COLOURS = [to_rgb(colormaps[name](number)) for name, count in (("tab10", 10), ("Set2", 8)) for number in range(count)]
PAPER = np.ones(3)


def slot_shares(memory: SlotMemory | None, batch: torch.Tensor) -> NDArray[np.float64]:
    """Return how much of what a node writes goes to each slot, ``[nodes, slots]``; rows sum to one.

    Of several heads the one is taken that is surest of its slots: a mean of heads would show none of them.

    Args:
        memory: of a pass through a network with ``return_state=True``.
        batch: the mesh of each node.
    """
    if memory is None or memory.write_weights is None:
        raise ValueError(
            "meshes: this memory has no slots that nodes write to. Draw a run of a slot module, e.g. anchored."
        )
    # A node's weight in a slot is its part of the slot's mass.
    score = memory.write_weights.detach().double().log() + memory.state.log_mass.detach().double()[batch]
    shares = score.softmax(dim=1)
    surest = shares.square().sum(dim=1).mean(dim=0).argmax()
    return np.asarray(shares[:, :, surest].numpy())


def draw(mesh: Mesh, prediction: NDArray[np.floating], shares: NDArray[np.floating] | None = None) -> Figure:
    """Return the solution, the prediction, their difference, and which slot each place writes to.

    Args:
        mesh: the mesh, with its solution.
        prediction: at its nodes.
        shares: of :func:`slot_shares`; None leaves the last panel out. Its colour is that of the slot to which a node
            writes most, and it is the paler the more evenly a node writes to all.
    """
    error = float(np.linalg.norm(prediction - mesh.solution) / np.linalg.norm(mesh.solution))
    low, high = float(mesh.solution.min()), float(mesh.solution.max())
    off = prediction - mesh.solution
    most = max(float(np.abs(off).max()), 1e-12)
    with mpl.rc_context(RC):
        figure = Figure(figsize=(3.3 * (3 if shares is None else 4), 3.3), layout="constrained")
        panels = figure.subplots(1, 3 if shares is None else 4)
        _field(panels[0], mesh, mesh.solution, "solution", cmap="viridis", vmin=low, vmax=high)
        _field(panels[1], mesh, prediction, "prediction", cmap="viridis", vmin=low, vmax=high)
        _field(panels[2], mesh, off, f"difference, {error:.0%} of the solution", cmap="RdBu_r", vmin=-most, vmax=most)
        if shares is not None:
            _slots(panels[3], mesh, shares)
        for panel in panels:
            panel.set_aspect("equal")
            panel.set_axis_off()
    return figure


def draw_run(record: Path, number: int = 0, *, split: str = "test", layer: int | None = None) -> Figure:
    """Return the picture of one mesh with the prediction and the slots of a trained run.

    Args:
        record: a record of ``mooring run meshes``, or the folder of its checkpoints.
        number: of the mesh in its split.
        split: ``"test"``, or one of those beyond training.
        layer: the memory behind which layer; the last if None.
    """
    run = trained(record)
    experiment: Any = run.experiment
    if not isinstance(experiment, MeshExperiment):
        raise ValueError(f"meshes: {record} is a run of {experiment.name}, expected meshes.")
    meshes = experiment.meshes(split)
    batch = collate(meshes, np.array([number]), experiment.config.plates.spacing)
    with torch.no_grad():
        prediction, kept = run.net.eval()(
            batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr, return_state=True
        )
    shown = [memory for place, memory in kept.items() if layer in (None, place)]
    slots = shown[-1] if shown and getattr(shown[-1], "write_weights", None) is not None else None
    shares = None if slots is None else slot_shares(slots, batch.batch)
    return draw(meshes[number], prediction.numpy(), shares)


def _field(panel: Any, mesh: Mesh, values: NDArray[np.floating], title: str, **options: Any) -> None:
    shown = panel.tripcolor(*mesh.position.T, values, triangles=mesh.cells.T, shading="gouraud", **options)
    panel.figure.colorbar(shown, ax=panel, shrink=0.75, pad=0.02)
    panel.set_title(title)


def _slots(panel: Any, mesh: Mesh, shares: NDArray[np.floating]) -> None:
    largest = shares.argmax(axis=1)
    even = 1.0 / shares.shape[1]
    sure = np.clip((shares.max(axis=1) - even) / max(1.0 - even, 1e-12), 0.0, 1.0)
    # Square roots, or all but the surest nodes would look alike.
    sure = np.sqrt(sure)[:, None]
    colour = np.array([COLOURS[slot % len(COLOURS)] for slot in largest])
    colour = sure * colour + (1.0 - sure) * PAPER
    # Each node colours its third of every triangle around it.
    corners = mesh.position[mesh.cells.T]
    after, before = ((corners + np.roll(corners, shift, axis=1)) / 2 for shift in (-1, 1))
    centre = np.broadcast_to(corners.mean(axis=1, keepdims=True), corners.shape)
    thirds = np.stack([corners, after, centre, before], axis=2).reshape(-1, 4, 2)
    face = colour[mesh.cells.T].reshape(-1, 3)
    panel.add_collection(PolyCollection(list(thirds), facecolors=face, edgecolors=face, linewidths=0.4))
    panel.autoscale_view()
    used = len(np.unique(largest))
    panel.set_title(f"the slot a node writes to: {used} of {shares.shape[1]}", color=INK)
