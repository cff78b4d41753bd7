"""Molecules, peptides and nodes as runs: records, budgets, splits, resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mooring.nn import MemoryOptions
from mooring.suite.real import MoleculeExperiment, NodeExperiment, PeptideExperiment
from mooring.suite.real.data import files, generated_graphs, generated_nodes, source
from mooring.suite.records import RecordError
from mooring.suite.train import ConfigError, RunRequest, get_experiment, resolve, run_one
from mooring.suite.train.config import override
from mooring.suite.train.fit import TrainingModule
from mooring.suite.train.memories import TITLES

from .conftest import graph_arrays, node_arrays  # isort: skip

TASKS = {"molecules": MoleculeExperiment, "peptides": PeptideExperiment, "nodes": NodeExperiment}


def small(task: str, **changes: Any) -> Any:
    return override(TASKS[task].presets["tiny"], changes, task)


@pytest.mark.parametrize(
    ("task", "model", "changes"),
    [
        ("molecules", "anchored", {"dataset": "esol", "carry": "true", "readout": "mean+sum"}),
        ("molecules", "ogb-vn", {"dataset": "bace", "log_size": "head"}),
        ("molecules", "plain", {"readout": "slots", "encoding": "walk", "encoding_width": 5}),
        ("peptides", "moored", {"dataset": "func", "conv": "GatedGCN", "layer_dropout": 0.2}),
        ("nodes", "none", {"dataset": "minesweeper"}),
    ],
)
def test_a_run_leaves_a_full_record(task: str, model: str, changes: dict[str, Any], folder: Path) -> None:
    record = run_one(RunRequest(task, model, 0, "tiny", changes, folder / "runs"))
    metric = record.diagnostics["metric"]
    assert metric in record.metrics["best"]
    assert f"test/{metric}" in record.metrics["final"]
    assert len(record.metrics["epochs"]) == 2
    assert record.config["dataset"] == changes.get("dataset", "generated")
    assert record.config["steps_per_epoch"] >= 1
    assert len(record.diagnostics["data"]["sha256"]) == (64 if "dataset" in changes else 0)
    # A record has no use for a path of this machine.
    assert str(folder) not in json.dumps(record.config) + json.dumps(record.diagnostics)
    assert (record.parameters["memory"] == 0) == (model == "plain")
    if model in TITLES:
        assert record.title == TITLES[model]


@pytest.mark.parametrize(("task", "dataset"), [("molecules", "esol"), ("nodes", "minesweeper")])
def test_a_run_on_other_data_is_another_run(task: str, dataset: str, folder: Path) -> None:
    def forget() -> None:
        files._graphs.cache_clear()
        files._nodes.cache_clear()

    request = RunRequest(task, "none", 0, "tiny", {"dataset": dataset}, folder / "runs")
    record = run_one(request)
    assert record.data == source(dataset).sha256
    forget()
    path = files.path_of(source(dataset), folder)
    path.unlink()
    # What is finished needs no data.
    assert run_one(request).metrics == record.metrics
    arrays = node_arrays(generated_nodes(30, 10)) if task == "nodes" else graph_arrays(generated_graphs(30))
    files.write_set(path, arrays)
    says = rf"made with data of hash {record.data[:16]}…, but this run reads data of hash \w{{16}}…\. Use another"
    with pytest.warns(UserWarning, match="the published one"), pytest.raises(RecordError, match=says):
        run_one(request)


@pytest.mark.parametrize("task", TASKS)
def test_a_killed_run_goes_on_exactly(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.train.fit.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    changes = {"epochs": 3, "layer_dropout": 0.3}
    whole = run_one(RunRequest(task, "ogb-vn", 1, "tiny", changes, tmp_path / "whole"))
    killed = RunRequest(task, "ogb-vn", 1, "tiny", changes, tmp_path / "killed")
    close = TrainingModule._close_epoch

    def kill(self: TrainingModule, means: dict[str, float]) -> None:
        close(self, means)
        raise RuntimeError("killed after an epoch")

    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "_close_epoch", kill)
        with pytest.raises(RuntimeError, match="killed after an epoch"):
            run_one(killed)
    assert [path.name for path in resolve(killed).folder.glob("epoch-*")] == ["epoch-000001.safetensors"]
    again = run_one(killed)
    assert again.metrics == whole.metrics


@pytest.mark.parametrize("task", TASKS)
def test_every_model_has_one_budget_of_parameters(task: str) -> None:
    changes = {"channels": 32, "layers": 3, "memory_after": "0,2", "slots": 8, "heads": 4}
    sizes, memories = {}, {}
    for model in (*TASKS[task].models, "plain"):
        torch.manual_seed(0)
        net = TASKS[task](small(task, **changes), model, 0).build()
        counts = {name: parameter.numel() for name, parameter in net.named_parameters()}
        sizes[model] = sum(counts.values())
        memories[model] = sum(count for name, count in counts.items() if name.startswith("memory."))
    assert memories.pop("plain") == 0
    assert sizes.pop("plain") < 0.9 * sizes["anchored"]
    for model, size in sizes.items():
        assert size == pytest.approx(sizes["anchored"], rel=0.05), model
        assert memories[model] == pytest.approx(memories["anchored"], rel=0.06), model


@pytest.mark.parametrize("task", TASKS)
def test_options_of_the_memory_are_set_by_name(task: str) -> None:
    """Those that are added to the slot module later come for free."""
    config = small(task, competition="true", mass_map="linear", dropout="0.1", slots="5")
    assert config.memory == replace(
        TASKS[task].presets["tiny"].memory, competition=True, mass_map="linear", dropout=0.1, slots=5
    )
    assert isinstance(config.memory, MemoryOptions)
    net = TASKS[task](config, "anchored", 0).build()
    assert net.memory["0"].write.slots == 5  # type: ignore[union-attr, index]


def test_batches_are_functions_of_seed_epoch_and_step() -> None:
    def batch(seed: int, epoch: int, step: int, model: str = "none") -> torch.Tensor:
        return MoleculeExperiment(small("molecules"), model, seed).train_batch(epoch, step).x

    assert torch.equal(batch(1, 2, 0), batch(1, 2, 0, "anchored"))
    for other in ((2, 2, 0), (1, 1, 0), (1, 2, 1)):
        assert batch(*other).shape != batch(1, 2, 0).shape or not torch.equal(batch(*other), batch(1, 2, 0))


def test_an_epoch_shows_a_training_graph_once_and_no_other() -> None:
    experiment = MoleculeExperiment(small("molecules", batch_size=7), "none", 0)
    graphs, steps = experiment.graphs, experiment.config.steps_per_epoch
    assert steps == len(graphs.splits["train"]) // 7
    sizes = np.diff(graphs.node_start)
    shown = sorted(size for step in range(steps) for size in experiment.train_batch(3, step).ptr.diff().tolist())
    assert shown == sorted(sizes[graphs.splits["train"]])


def test_a_part_of_the_graphs_is_evenly_spaced() -> None:
    experiment = PeptideExperiment(small("peptides", train_graphs=10, evaluation_graphs=3), "none", 0)
    train = experiment.graphs.splits["train"]
    assert len(experiment.chosen("train")) == 10
    assert list(experiment.chosen("train")[[0, -1]]) == list(train[[0, -1]])
    assert len(experiment.chosen("test")) == 3
    assert experiment.config.steps_per_epoch == 1


def test_targets_are_predicted_in_their_own_units() -> None:
    """A network that gives zeros predicts the mean of the training targets."""
    experiment = MoleculeExperiment(small("molecules"), "none", 0)

    class Zeros(torch.nn.Module):
        def forward(self, ptr: torch.Tensor, **_: Any) -> torch.Tensor:
            return torch.zeros(len(ptr) - 1, 1)

    prediction, target = experiment.predict(Zeros(), "test")
    train = experiment.graphs.y[experiment.graphs.splits["train"]]
    assert torch.allclose(prediction, torch.full_like(prediction, float(train.mean())))
    assert torch.equal(target, torch.from_numpy(experiment.graphs.y[experiment.graphs.splits["test"]]))


def test_the_metric_of_the_set_selects() -> None:
    assert MoleculeExperiment(small("molecules", dataset="lipo"), "none", 0).select == ("rmse", "min")
    assert MoleculeExperiment(small("molecules", dataset="hiv"), "none", 0).select == ("roc_auc", "max")
    assert MoleculeExperiment(small("molecules", dataset="zinc"), "none", 0).select == ("mae", "min")
    assert PeptideExperiment.select == ("average_precision", "max")


def test_the_seed_chooses_the_official_split(folder: Path) -> None:
    first, second, again = (NodeExperiment(small("nodes", dataset="minesweeper"), "none", seed) for seed in (0, 1, 10))
    assert not torch.equal(first.mask("train"), second.mask("train"))
    assert torch.equal(first.mask("train"), again.mask("train"))
    _, diagnostics = second.finish(second.build().eval())
    assert diagnostics["data"]["split"] == 1


def test_only_training_nodes_are_learned_from() -> None:
    experiment = NodeExperiment(small("nodes"), "none", 0)
    net, batch = experiment.build(), experiment.train_batch(0, 0)
    loss, _ = experiment.loss(net, batch, 0)
    other = replace(batch, y=torch.where(experiment.mask("train").unsqueeze(1), batch.y, 1 - batch.y))
    assert torch.equal(experiment.loss(net, other, 0)[0], loss)
    assert not torch.equal(experiment.loss(net, replace(batch, y=1 - batch.y), 0)[0], loss)


@pytest.mark.parametrize("task", TASKS)
def test_loss_falls(task: str, losses: Callable[..., list[float]]) -> None:
    found = losses(TASKS[task](small(task), "anchored", 0), 25)
    assert found[-1] < 0.5 * found[0]


def test_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_DATA", str(tmp_path))
    for task, cls in TASKS.items():
        assert get_experiment(task) is cls
        with pytest.raises(ValueError, match="did you mean 'anchored'"):
            cls(small(task), "anchord", 0)
    with pytest.raises(ConfigError, match="did you mean 'esol'"):
        resolve(RunRequest("molecules", "none", 0, "quick", {"dataset": "esoll"}, tmp_path))
    with pytest.raises(ConfigError, match="a share below 1"):
        resolve(RunRequest("nodes", "none", 0, "tiny", {"layer_dropout": "1"}, tmp_path))
    for places in ("", "7"):
        with pytest.raises(ConfigError, match=r"memory_after is .*, expected numbers from 0 to \d, as there are"):
            resolve(RunRequest("molecules", "anchored", 0, "tiny", {"memory_after": places}, tmp_path))
    with pytest.raises(OSError, match=r"type `mooring data esol`"):
        run_one(RunRequest("molecules", "none", 0, "quick", {}, tmp_path))
