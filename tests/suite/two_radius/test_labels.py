from dataclasses import replace

import pytest
import torch

from mooring.suite.train.experiment import get_experiment
from mooring.suite.two_radius import OriginalExperiment, OriginalNet
from mooring.suite.two_radius.data import OriginalTask
from mooring.suite.two_radius.labels import ORIGINAL_FULL as FULL
from mooring.suite.two_radius.labels import ORIGINAL_TINY as TINY


def test_registered_under_its_name() -> None:
    assert get_experiment("two-radius-original") is OriginalExperiment


@pytest.mark.parametrize("model", [*OriginalExperiment.models, "sage"])
def test_every_model_trains_a_step_and_answers(model: str) -> None:
    experiment = OriginalExperiment(TINY, model, seed=0)
    torch.manual_seed(0)
    net = experiment.build()
    loss, _ = experiment.loss(net, experiment.train_batch(0, 0), 0)
    loss.backward()
    assert all(parameter.grad is not None for name, parameter in net.named_parameters() if "anchor_value" not in name)
    net.eval()
    with torch.no_grad():
        assert list(experiment.evaluate(net, 0)) == ["label", "graph", "label_loss"]
        metrics, _ = experiment.finish(net)
    assert list(metrics) == ["test/label", "test/graph", "test/label_loss"]


def test_answers_depend_on_the_features_and_the_graph_only() -> None:
    """Two targets with one identifier and equal links would answer alike: the network has no role to go by."""
    experiment = OriginalExperiment(TINY, "gcn+anchored", seed=0)
    torch.manual_seed(0)
    net = experiment.build().eval()
    batch = experiment.train_batch(0, 0)
    assert isinstance(net, OriginalNet)
    relabelled = replace(batch, role=batch.role.clone().fill_(2))
    torch.testing.assert_close(net(relabelled).label[batch.targets], net(batch).label)


def test_an_epoch_visits_every_graph_once_in_a_new_order() -> None:
    experiment = OriginalExperiment(TINY, "gcn", seed=0)
    sizes = [experiment.train_batch(0, step).num_graphs for step in range(3)]
    assert sizes == [11, 11, 1]
    rows = [torch.cat([experiment.train_batch(epoch, step).y_label for step in range(3)]) for epoch in (0, 1)]
    assert not torch.equal(*rows)
    assert torch.equal(*(row.sort().values for row in rows))
    again = OriginalExperiment(TINY, "gcn", seed=0).train_batch(1, 2)
    assert torch.equal(again.y_label, experiment.train_batch(1, 2).y_label)
    # A second device goes on past the epoch's own steps.
    assert experiment.train_batch(0, 3).num_graphs == 11


def test_full_preset_has_the_published_data() -> None:
    assert (FULL.task, FULL.layers) == (OriginalTask(10, 10, 1, (7000, 700, 700)), 4)
    assert (FULL.steps_per_epoch - 1) * FULL.batch_size < 7000 <= FULL.steps_per_epoch * FULL.batch_size


def test_memories_stand_after_the_first_convolutions() -> None:
    net = OriginalExperiment(replace(TINY, memory_blocks=3), "gcn+vn-sum", seed=0).build()
    assert isinstance(net, OriginalNet)
    assert len(net.memory) == 3
    plain = OriginalExperiment(replace(TINY, memory_blocks=3), "gcn", seed=0).build()
    assert isinstance(plain, OriginalNet)
    assert len(plain.memory) == 0


def test_a_memory_goes_on_from_the_one_before() -> None:
    """What the first memory holds reaches the second by its slots alone: nothing else of the two nets differs."""
    config = TINY.but(memory_blocks=2, addressed=False)
    nets = [OriginalExperiment(config.but(carry=carry), "gcn+anchored", seed=0) for carry in (False, True)]
    answers = []
    for experiment in nets:
        torch.manual_seed(0)
        net = experiment.build().eval()
        answers.append(net(experiment.train_batch(0, 0)).label)
    assert not torch.allclose(*answers)


def test_without_addresses_identifiers_do_not_route() -> None:
    experiment = OriginalExperiment(TINY.but(addressed=False), "gcn+anchored", seed=0)
    net = experiment.build()
    assert isinstance(net, OriginalNet)
    assert net.memory[0].address_channels is None
    loss, _ = experiment.loss(net, experiment.train_batch(0, 0), 0)
    assert loss.isfinite()


def test_messages() -> None:
    with pytest.raises(
        ValueError, match=r"^two-radius-original: model 'mlp' does not start with a known convolution\. Use gcn"
    ):
        OriginalExperiment(TINY, "mlp", 0)
    with pytest.raises(ValueError, match=r"unknown module 'anchord'; did you mean 'anchored'\?$"):
        OriginalExperiment(TINY, "gcn+anchord", 0)
    with pytest.raises(
        ValueError,
        match=r"^two-radius-original: 500 steps of 16 graphs, but the training split has 7000\. Lower ",
    ):
        OriginalExperiment(replace(FULL, steps_per_epoch=500), "gcn", 0)
    with pytest.raises(ValueError, match=r"^two-radius-original: memory_blocks=5, above layers=4\. Each follows a "):
        OriginalExperiment(replace(FULL, memory_blocks=5), "gcn", 0)
