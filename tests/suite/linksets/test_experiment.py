from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mooring.suite.linksets import LinkExperiment
from mooring.suite.linksets.data.dataset import LinkBatch
from mooring.suite.linksets.experiment import PRESETS
from mooring.suite.train import RunRequest, get_experiment, run_one

TINY = PRESETS["tiny"]


@pytest.mark.parametrize("model", LinkExperiment.models)
def test_tiny_run_leaves_a_full_record(model: str, tmp_path: Path) -> None:
    record = run_one(RunRequest("linksets", model, 0, "tiny", {}, tmp_path))
    final = record.metrics["final"]
    for split in ("test", "larger"):
        names = {"f1", "precision", "recall", "decoded_f1", "feasible", "decoded_feasible", "confidence"}
        assert {f"{split}/{name}" for name in names} <= final.keys()
        for rule in ("degree", "sector", "parity", "reach", "symmetry", "self_link"):
            assert final[f"{split}/decoded_violations_{rule}"] == 0.0
            assert 0.0 <= final[f"{split}/violations_{rule}"] <= 1.0
        assert final[f"{split}/decoded_feasible"] == 1.0
    assert 0 < final["greedy/f1"] <= 1
    assert 0 < record.metrics["best"]["f1"] <= 1
    assert sum(record.diagnostics["calibration"]["weight"]) == pytest.approx(1)
    assert record.diagnostics["all_optimal"]
    assert (record.parameters["memory"] == 0) == (model == "none")


def test_batches_are_functions_of_seed_epoch_and_step() -> None:
    def batch(seed: int, epoch: int, step: int, model: str = "anchored") -> torch.Tensor:
        return LinkExperiment(TINY, model, seed).train_batch(epoch, step).position

    assert torch.equal(batch(1, 2, 0), batch(1, 2, 0))
    # Runs are paired: the model has no part in what is shown.
    assert torch.equal(batch(1, 2, 0), batch(1, 2, 0, "none"))
    for other in ((2, 2, 0), (1, 1, 0), (1, 2, 1)):
        assert batch(*other).shape != batch(1, 2, 0).shape or not torch.equal(batch(*other), batch(1, 2, 0))


def test_an_epoch_shows_a_graph_once() -> None:
    config = dataclasses.replace(TINY, train_graphs=21)
    shown = [LinkExperiment(config, "none", 0).train_batch(1, step).gain for step in range(3)]
    gains = torch.cat(shown)
    assert len(gains.unique()) == len(gains)


def test_seeds_share_their_graphs() -> None:
    first, second = (LinkExperiment(TINY, "none", seed)._graphs("test") for seed in (0, 1))
    assert np.array_equal(first.weight, second.weight)
    other = LinkExperiment(dataclasses.replace(TINY, data_seed=1), "none", 0)._graphs("test")
    assert not np.array_equal(first.weight[:5], other.weight[:5])


def test_loss_falls(losses: Callable[..., list[float]]) -> None:
    found = losses(LinkExperiment(TINY, "anchored", 0), 31)
    assert found[-1] < 0.5 * found[0]


def test_learning_rate_rises_then_falls() -> None:
    experiment = LinkExperiment(PRESETS["quick"], "none", 0)
    rates = [experiment.learning_rate_factor(epoch, 0) for epoch in range(20)]
    assert 0 < rates[0] < 0.1
    assert max(rates) == rates[1] == 1.0
    assert rates[1:] == sorted(rates[1:], reverse=True)


def test_messages() -> None:
    with pytest.raises(ValueError, match="did you mean 'anchored'"):
        LinkExperiment(TINY, "anchord", 0)
    with pytest.raises(ValueError, match="an epoch shows a graph once"):
        dataclasses.replace(TINY, steps_per_epoch=5)
    assert get_experiment("linksets") is LinkExperiment


class Doubtful(torch.nn.Module):
    """Tells links from other pairs, at a level of its own on validation graphs: (no link, link) probabilities."""

    def __init__(self, validation: tuple[float, float], other: tuple[float, float], num_validation: int) -> None:
        super().__init__()
        self.levels = torch.tensor([other, validation]).logit()
        self.num_validation = num_validation

    def forward(self, batch: LinkBatch) -> torch.Tensor:
        return self.levels[int(batch.num_graphs == self.num_validation)][batch.target.long()]


def test_the_threshold_is_chosen_on_validation_graphs_and_used_on_the_others() -> None:
    config = dataclasses.replace(TINY, validation_graphs=11, test_graphs=7, larger_graphs=3)
    experiment = LinkExperiment(config, "none", 0)
    doubtful = Doubtful(validation=(0.5, 0.6), other=(0.3, 0.4), num_validation=11)
    metrics, diagnostics = experiment.finish(doubtful)
    assert 0.5 < metrics["threshold"] <= 0.6
    # On the other graphs everything lies below that threshold, although a threshold of their own would be perfect.
    for split in ("test", "larger"):
        assert metrics[f"{split}/recall"] == 0.0
        assert metrics[f"{split}/f1"] == 0.0
    assert set(diagnostics["f1_by_size"]["f1"]) == {0.0}
    assert experiment.evaluate(doubtful, 0)["threshold"] == metrics["threshold"]
    assert experiment.evaluate(doubtful, 0)["f1"] == 1.0


def test_turns_need_ranks_to_tell() -> None:
    with pytest.raises(ValueError, match="turns=3 without exact_ranks"):
        PRESETS["tiny"].but(turns=3)
