"""The census as the trainer sees it: pure batches, a short run end to end, and clear refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mooring.suite.motifs import READOUTS, MotifExperiment
from mooring.suite.motifs.data import MOTIF_NAMES, TEST_SPLITS, MotifSettings
from mooring.suite.motifs.experiment import PRESETS
from mooring.suite.train import ConfigError, get_experiment
from mooring.suite.train.run import RunRequest, run_one

TINY = PRESETS["tiny"]


def test_the_task_is_registered_under_its_name():
    assert get_experiment("motifs") is MotifExperiment
    assert MotifExperiment.models == ("mean", "sum", "cross-attn", "anchored")
    assert set(MotifExperiment.models) <= set(READOUTS)


def test_a_batch_is_a_function_of_seed_epoch_and_step():
    one = MotifExperiment(TINY, "mean", seed=5).train_batch(1, 2)
    same = MotifExperiment(TINY, "anchored", seed=5).train_batch(1, 2)
    assert torch.equal(one.x, same.x)
    assert torch.equal(one.edge_index, same.edge_index)
    for seed, epoch, step in ((6, 1, 2), (5, 0, 2), (5, 1, 1)):
        other = MotifExperiment(TINY, "mean", seed).train_batch(epoch, step)
        assert not torch.equal(one.target, other.target)


def test_an_epoch_shows_no_graph_twice():
    experiment = MotifExperiment(replace(TINY, train_graphs=39), "mean", seed=5)
    sizes = [len(experiment.train_batch(0, step).x) for step in range(TINY.steps_per_epoch)]
    again = [len(experiment.train_batch(1, step).x) for step in range(TINY.steps_per_epoch)]
    assert sum(sizes) == sum(again)
    assert sizes != again


def test_steps_of_further_devices_start_the_epoch_over():
    experiment = MotifExperiment(replace(TINY, train_graphs=39), "mean", seed=5)
    assert torch.equal(experiment.train_batch(0, 3).x, experiment.train_batch(0, 0).x)


def test_the_learning_rate_rises_then_falls():
    experiment = MotifExperiment(PRESETS["full"], "mean", seed=0)
    config = experiment.config
    rise = [experiment.learning_rate_factor(0, step) for step in range(config.steps_per_epoch)]
    fall = [experiment.learning_rate_factor(epoch, 0) for epoch in range(1, config.epochs + 1)]
    assert 0 < rise[0] < 0.01
    assert rise == sorted(rise)
    assert fall[0] == pytest.approx(1.0)
    assert fall == sorted(fall, reverse=True)
    assert fall[-1] == pytest.approx(0.01)


def test_a_readout_learns_at_the_rate_of_the_memory():
    experiment = MotifExperiment(replace(TINY, memory_lr_scale=3.0), "sum", seed=0)
    rates = [group["lr"] for group in experiment.parameter_groups(experiment.build())]
    assert rates == pytest.approx([TINY.learning_rate, 3 * TINY.learning_rate])


def test_it_stops_when_validation_has_not_improved_for_so_long():
    experiment = MotifExperiment(replace(TINY, patience=3), "mean", seed=0)
    history = [{"log_mae": error} for error in (0.5, 0.3, 0.4, 0.4)]
    assert not experiment.should_stop(history)
    assert experiment.should_stop([*history, {"log_mae": 0.35}])


@pytest.mark.parametrize("model", ["anchored", "pna"])
def test_a_tiny_run_gives_a_whole_record(model, tmp_path):
    record = run_one(RunRequest("motifs", model, 0, "tiny", out=tmp_path))
    names = {f"{split}/{metric}" for split in TEST_SPLITS for metric in ("log_mae", "log_r2", "exact")}
    assert set(record.metrics["final"]) == names
    assert all(math.isfinite(value) for value in record.metrics["final"].values())
    assert {"log_mae", "log_r2"} <= set(record.metrics["best"])
    assert set(record.diagnostics["per_motif"]) == set(TEST_SPLITS)
    assert set(record.diagnostics["per_motif"]["jittered"]) == set(MOTIF_NAMES)
    table = record.diagnostics["error_by_count"]["counts"]
    assert min(table["count"]) > TINY.census.max_count
    assert len(table["count"]) == len(table["log_mae"])
    assert record.diagnostics["replication_change"] > 1e-4


def test_a_normalised_readout_reports_no_change_under_replication(tmp_path):
    record = run_one(RunRequest("motifs", "cross-attn", 0, "tiny", out=tmp_path))
    assert record.diagnostics["replication_change"] < 1e-4
    assert (record.title, record.order) == ("Cross-Attn VN", list(READOUTS).index("cross-attn"))


def test_training_lowers_the_loss():
    experiment = MotifExperiment(replace(TINY, learning_rate=1e-2), "anchored", seed=1)
    torch.manual_seed(0)
    net = experiment.build()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for step in range(30):
        loss, _ = experiment.loss(net, experiment.train_batch(step // 3, step % 3), 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_an_unknown_readout_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match="unknown readout 'anchor'; did you mean 'anchored'"):
        MotifExperiment(TINY, "anchor", seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_graphs": 38}, "an epoch shows a graph once"),
        ({"test_graphs": 1}, "at least 2"),
        ({"background": (3, 40)}, "mistaken for a gadget"),
    ],
)
def test_impossible_configs_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TINY.but(**change)


def test_the_census_of_a_config_does_not_depend_on_how_it_is_trained():
    assert replace(TINY, learning_rate=1.0, epochs=7).census == TINY.census == MotifSettings()
