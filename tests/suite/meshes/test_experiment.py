"""The task as runs: records, budgets, resume, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mooring.suite.meshes import MeshExperiment
from mooring.suite.meshes.data import BEYOND, collate
from mooring.suite.meshes.experiment import errors
from mooring.suite.train import ConfigError, RunRequest, get_experiment, resolve, run_one
from mooring.suite.train.config import override
from mooring.suite.train.fit import TrainingModule

pytest.importorskip("skfem", reason="solutions are made by scikit-fem: pip install 'mooring[meshes]'")


def small(model: str = "anchored", seed: int = 0, **changes: Any) -> MeshExperiment:
    return MeshExperiment(override(MeshExperiment.presets["tiny"], changes, "meshes"), model, seed)


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("anchored", {}),
        ("none", {"physics": "elasticity", "waves": 2}),
        ("ogb-vn", {"memory_after": "0", "conv": "GINEConv"}),
        ("plain", {"beyond_graphs": 0}),
    ],
)
def test_a_run_leaves_a_full_record(model: str, changes: dict[str, Any], tmp_path: Path) -> None:
    record = run_one(RunRequest("meshes", model, 0, "tiny", changes, tmp_path))
    splits = ("test", *(() if "beyond_graphs" in changes else BEYOND))
    assert set(record.metrics["final"]) == {f"{split}/error" for split in splits}
    assert len(record.metrics["epochs"]) == 2
    assert "error" in record.metrics["best"]
    assert set(record.diagnostics["data"]) == {"train", *splits}
    by_mesh = record.diagnostics["by_mesh"]["test"]
    assert record.metrics["final"]["test/error"] == pytest.approx(np.mean(by_mesh["error"]), abs=1e-4)
    assert len(by_mesh["nodes"]) == record.config["test_graphs"]
    assert (record.parameters["memory"] == 0) == (model == "plain")


def test_a_killed_run_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.train.fit.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole = run_one(RunRequest("meshes", "anchored", 1, "tiny", {"dropout": 0.2}, tmp_path / "whole"))
    killed = RunRequest("meshes", "anchored", 1, "tiny", {"dropout": 0.2}, tmp_path / "k")
    close = TrainingModule._close_epoch

    def kill(self: TrainingModule, means: dict[str, float]) -> None:
        close(self, means)
        raise RuntimeError("killed after an epoch")

    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "_close_epoch", kill)
        with pytest.raises(RuntimeError, match="killed after an epoch"):
            run_one(killed)
    assert list(resolve(killed).folder.glob("epoch-*"))
    assert run_one(killed).metrics == whole.metrics


def test_every_model_has_one_budget_of_parameters() -> None:
    sizes = {}
    for model in (*MeshExperiment.models, "ogb-vn", "gmt", "perceiver"):
        net = small(model, channels=32, slots=8, heads=4).build()
        sizes[model] = sum(parameter.numel() for parameter in net.parameters())
    net = small("anchored", channels=32, slots=8, heads=4, routing="self").build()
    sizes["self-addressed"] = sum(parameter.numel() for parameter in net.parameters())
    for model, size in sizes.items():
        assert size == pytest.approx(sizes["anchored"], rel=0.05), model


@pytest.mark.parametrize("model", MeshExperiment.models)
def test_every_default_model_learns(model: str, losses: Any) -> None:
    found = losses(small(model), 25)
    assert np.mean(found[-5:]) < 0.9 * np.mean(found[:5])


def test_the_error_of_a_split_is_that_of_each_mesh_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = small()
    net = experiment.build().eval()
    meshes = experiment.meshes("validation")
    with torch.no_grad():
        alone = [float(errors(net, collate(meshes, np.array([n]), experiment.config.plates.spacing))) for n in range(5)]
        for nodes in (20_000, 100, 10):
            monkeypatch.setattr("mooring.suite.meshes.experiment.EVALUATION_NODES", nodes)
            assert experiment.split_errors(net, "validation").tolist() == pytest.approx(alone, rel=1e-4)


def test_a_batch_is_a_pure_function_of_seed_epoch_and_step() -> None:
    first, again = small().train_batch(1, 2), small().train_batch(1, 2)
    assert all(torch.equal(value, getattr(again, name)) for name, value in vars(first).items())
    others = (small(seed=1).train_batch(1, 2), small().train_batch(0, 2), small().train_batch(1, 1))
    assert all(other.y.tolist() != first.y.tolist() for other in others)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"physics": "flow"}, "field 'physics' expects heat or elasticity, got 'flow'"),
        ({"nodes": "5,9"}, r"nodes=\(5, 9\), expected two rising numbers"),
        ({"memory_after": "0,2"}, "memory_after is 0,2, expected different numbers from 0 to 1"),
        ({"conv": "SAGEConv"}, "conv=SAGEConv sees no edge features"),
        ({"batch_size": 7}, "3 steps of 7 graphs are more than train_graphs=11"),
        ({"plate": "1"}, "unknown field 'plate'"),
    ],
)
def test_a_config_that_no_run_could_use_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        small(**changes)


def test_the_task_is_registered_and_names_what_it_needs() -> None:
    assert get_experiment("meshes") is MeshExperiment
    assert MeshExperiment.requires == {"skfem": "mooring[meshes]"}
    for preset in ("heat", "elasticity", "heat-large"):
        assert MeshExperiment.presets[preset].places == (0, 1, 2, 3)
