"""Packed meshes, their cache, and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mooring.suite.meshes.data import PlateSettings, cached, collate, generate, generate_many, num_features, scales
from mooring.suite.meshes.data.dataset import edges_of

pytest.importorskip("skfem", reason="solutions are made by scikit-fem: pip install 'mooring[meshes]'")

SETTINGS = PlateSettings(nodes=(60, 90), holes=(1, 1), more_holes=(2, 2))


@pytest.fixture(scope="module")
def dataset() -> Any:
    return generate_many(SETTINGS, "train", 5, 0)


def test_packed_meshes_are_those_that_were_generated(dataset: Any) -> None:
    assert len(dataset) == 5
    for index in (0, 3):
        mesh, expected = dataset[index], generate(SETTINGS, "train", index, 0)
        assert all(np.array_equal(getattr(mesh, name), value) for name, value in vars(expected).items())


def test_worker_processes_do_not_change_the_meshes(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.meshes.data.dataset._CHUNK_NODES", 200)
    assert generate_many(SETTINGS, "train", 5, 0, workers=2).sha256() == dataset.sha256()


def test_the_edges_of_a_dataset_are_those_of_its_meshes(dataset: Any) -> None:
    pairs, start = dataset.edges
    for index in range(5):
        assert np.array_equal(pairs[:, start[index] : start[index + 1]], edges_of(dataset[index].cells))


def test_a_batch_joins_meshes_in_the_order_given(dataset: Any) -> None:
    batch = collate(dataset, np.array([4, 1]), spacing=0.1)
    first, second = dataset[4], dataset[1]
    assert batch.num_graphs == 2
    assert torch.equal(batch.batch.bincount(), batch.ptr.diff())
    assert batch.ptr.tolist() == [0, len(first.position), len(first.position) + len(second.position)]
    assert batch.x.shape == (len(batch.y), num_features(SETTINGS))
    expected = np.concatenate([first.solution, second.solution])
    assert np.array_equal(batch.y.numpy(), expected)
    # Every edge both ways, inside one mesh.
    sender, receiver = batch.edge_index
    assert torch.equal(batch.batch[sender], batch.batch[receiver])
    forward, backward = batch.edge_attr.chunk(2)
    assert torch.equal(forward[:, :2], -backward[:, :2])
    assert torch.allclose(batch.edge_attr[:, :2] * 0.1, batch.position[receiver] - batch.position[sender], atol=1e-6)
    assert torch.allclose(batch.edge_attr[:, 2], batch.edge_attr[:, :2].norm(dim=1))
    shown = batch.to_data()
    assert shown.num_nodes == len(batch.y)
    assert shown.pos is batch.position


@pytest.mark.parametrize("physics", ["heat", "elasticity"])
def test_scaled_features_are_of_the_size_of_one(physics: Any) -> None:
    settings = PlateSettings(physics)
    batch = collate(generate_many(settings, "train", 20, 0), np.arange(20), settings.spacing)
    mean, deviation, unit = map(torch.tensor, scales(settings))
    scaled = (batch.x - mean) / deviation
    assert num_features(settings) == batch.x.size(1)
    assert float(scaled.mean(dim=0).abs().max()) < 0.5
    assert bool(((scaled.std(dim=0) > 0.4) & (scaled.std(dim=0) < 2.5)).all())
    assert 0.4 < float(batch.y.square().mean().sqrt() / unit) < 2.5


def test_a_dataset_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Any) -> None:
    made = cached(SETTINGS, "train", 5, 0, folder=tmp_path)
    assert made.sha256() == dataset.sha256()
    (path,) = tmp_path.glob("meshes/heat-train-*.npz")
    monkeypatch.setattr("mooring.suite.meshes.data.dataset.generate_many", None)
    assert cached(SETTINGS, "train", 5, 0, folder=tmp_path).sha256() == dataset.sha256()
    with pytest.raises(TypeError, match="not callable"):
        cached(SETTINGS, "train", 5, 1, folder=tmp_path)
    monkeypatch.undo()
    path.write_bytes(path.read_bytes()[:-100])
    assert cached(SETTINGS, "train", 5, 0, folder=tmp_path).sha256() == dataset.sha256()


@pytest.mark.parametrize(
    ("split", "count", "message"),
    [("finest", 3, "unknown split 'finest'; the splits are train"), ("test", 0, "num_graphs=0 and workers=1 must be")],
)
def test_what_cannot_be_made_is_refused(split: str, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^meshes: {message}"):
        generate_many(SETTINGS, split, count, 0)
