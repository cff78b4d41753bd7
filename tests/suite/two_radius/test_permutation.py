from dataclasses import replace

import pytest
import torch

from mooring.suite.train.experiment import get_experiment
from mooring.suite.two_radius import PermutationExperiment, TwoRadiusNet
from mooring.suite.two_radius.experiment import PERMUTATION_TINY as TINY


def test_registered_under_its_name() -> None:
    assert get_experiment("two-radius-permutation") is PermutationExperiment


def test_names_labels_only() -> None:
    experiment = PermutationExperiment(TINY, "cross-attn", seed=0)
    torch.manual_seed(0)
    net = experiment.build()
    assert isinstance(net, TwoRadiusNet)
    assert net.count_head is None
    batch = experiment.train_batch(0, 0)
    assert batch.num_graphs == 7
    loss, parts = experiment.loss(net, batch, 0)
    assert float(loss.detach()) == pytest.approx(float(parts["label_loss"]))
    with torch.no_grad():
        assert list(experiment.evaluate(net, 0)) == ["label", "graph", "label_loss"]


def test_width_and_slots_are_those_of_the_config() -> None:
    experiment = PermutationExperiment(
        replace(TINY, channels=8, embedding_channels=12, slots=3, heads=2), "anchored", 0
    )
    net = experiment.build()
    assert isinstance(net, TwoRadiusNet)
    memory = net(experiment.train_batch(0, 0), return_state=True).memory
    assert memory.content.shape == (7, 3, 8)
    assert net.identifier.weight.shape == (6, 12)


def test_stops_when_solved() -> None:
    experiment = PermutationExperiment(replace(TINY, stop_at=0.9), "vn", 0)
    assert experiment.should_stop([{"label": 0.2}, {"label": 0.95}])
    assert not experiment.should_stop([{"label": 0.95}, {"label": 0.2}])
    assert not PermutationExperiment(replace(TINY, stop_at=None), "vn", 0).should_stop([{"label": 1.0}])


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: num_identifiers=0, expected at least 1\.$"):
        PermutationExperiment(replace(TINY, num_identifiers=0), "vn", 0)
