"""The counted task by the paper's protocol, and the permutation task."""

import json
from dataclasses import replace

import pytest
import torch

from mooring.nn import MemoryOptions
from mooring.suite.train.experiment import get_experiment
from mooring.suite.two_radius import PermutationExperiment, TwoRadiusExperiment, TwoRadiusNet
from mooring.suite.two_radius.data import CountedTask
from mooring.suite.two_radius.experiment import PAPER, QUICK, TINY
from mooring.suite.two_radius.labels import PERMUTATION_TINY


def test_registered_under_its_name() -> None:
    assert get_experiment("two-radius") is TwoRadiusExperiment


def test_paper_preset_is_the_protocol() -> None:
    assert (PAPER.epochs, PAPER.steps_per_epoch, PAPER.assignments, PAPER.validation_batches) == (200, 50, 32, 8)
    assert (PAPER.learning_rate, PAPER.memory_lr_scale, PAPER.weight_decay, PAPER.clip_norm) == (1e-4, 2.0, 0.0, 5.0)
    assert PAPER.task == CountedTask(12, 4, (1, 2, 3), num_centres=1, rendering="collapsed")
    assert (PAPER.channels, PAPER.layers) == (128, 3)
    assert PAPER.memory == MemoryOptions(slots=12, heads=4, temperature=0.35, init_std=1e-3, mass="log_odds")
    assert TwoRadiusExperiment.select == ("both", "max")


def test_count_weight_follows_the_paper() -> None:
    weight = TwoRadiusExperiment(PAPER, "mpnn", 0).count_weight
    # Epoch e of the paper is e - 1 here.
    assert weight(0) == weight(29) == 0.0
    assert weight(30) == pytest.approx(0.5 / 40)
    assert weight(49) == pytest.approx(0.25)
    assert weight(69) == weight(70) == weight(199) == 0.5


def test_count_weight_without_ramp_is_a_step() -> None:
    weight = TwoRadiusExperiment(replace(PAPER, count_warmup=2, count_ramp=0), "mpnn", 0).count_weight
    assert [weight(epoch) for epoch in range(4)] == [0.0, 0.0, 0.5, 0.5]


def test_learning_rate_is_constant_in_the_paper_and_falls_in_the_quick_preset() -> None:
    assert TwoRadiusExperiment(PAPER, "mpnn", 0).learning_rate_factor(199, 49) == 1.0
    quick = TwoRadiusExperiment(QUICK, "mpnn", 0).learning_rate_factor
    last = QUICK.epochs - 1, QUICK.steps_per_epoch - 1
    assert quick(0, 0) == 1.0
    assert QUICK.final_lr_scale < quick(*last) < QUICK.final_lr_scale + 0.01
    assert quick(3, 1) > quick(3, 2) > quick(4, 0)


def test_without_addresses_nodes_find_slots_by_what_they_hold() -> None:
    experiment = TwoRadiusExperiment(TINY.but(addressed=False), "anchored", 0)
    net = experiment.build()
    assert isinstance(net, TwoRadiusNet)
    assert net.memory is not None
    assert net.memory.address_channels is None
    loss, _ = experiment.loss(net, experiment.train_batch(0, 0), 0)
    loss.backward()
    assert net.memory.write.lin_query.weight.grad.abs().sum() > 0


def test_memory_learns_faster() -> None:
    experiment = TwoRadiusExperiment(PAPER, "anchored", 0)
    local, memory = experiment.parameter_groups(experiment.build())
    assert (local["lr"], memory["lr"]) == (1e-4, 2e-4)


@pytest.mark.parametrize("model", [*TwoRadiusExperiment.models, "vn-sum"])
def test_the_paper_minibatch_reaches_every_parameter(model: str) -> None:
    experiment = TwoRadiusExperiment(PAPER, model, 0)
    torch.manual_seed(0)
    net = experiment.build()
    experiment.loss(net, experiment.train_batch(0, 0), epoch=100)[0].backward()
    silent = {name for name, value in net.named_parameters() if value.grad is None or not value.grad.any()}
    # The anchor's value is read only where nothing was written.
    assert silent <= {"memory.update.anchor_value"}


def test_loss_adds_the_weighted_count_loss() -> None:
    experiment = TwoRadiusExperiment(replace(TINY, count_warmup=1, count_ramp=2), "anchored", 0)
    torch.manual_seed(0)
    net, batch = experiment.build(), experiment.train_batch(0, 0)
    for epoch, weight in ((0, 0.0), (1, 0.25), (2, 0.5)):
        loss, parts = experiment.loss(net, batch, epoch)
        assert float(loss.detach()) == pytest.approx(float(parts["label_loss"]) + weight * float(parts["count_loss"]))


def test_train_batches_are_pure_and_differ() -> None:
    one, two = (TwoRadiusExperiment(TINY, "vn", seed=3) for _ in range(2))
    one.train_batch(0, 0)
    assert torch.equal(one.train_batch(5, 2).y_label, two.train_batch(5, 2).y_label)
    assert not torch.equal(one.train_batch(5, 2).y_label, one.train_batch(2, 5).y_label)


def test_validation_is_fresh_in_every_epoch_and_repeatable() -> None:
    experiment = TwoRadiusExperiment(TINY, "vn", seed=3)
    torch.manual_seed(0)
    net = experiment.build().eval()
    with torch.no_grad():
        first, again, next_epoch = (experiment.evaluate(net, epoch) for epoch in (0, 0, 1))
    assert list(first) == ["label", "count", "both", "graph", "label_loss", "count_loss"]
    assert first == again
    assert first["label_loss"] != next_epoch["label_loss"]


def test_finish_is_json_with_the_agreed_names() -> None:
    experiment = TwoRadiusExperiment(TINY, "anchored", seed=3)
    torch.manual_seed(0)
    net = experiment.build().eval()
    with torch.no_grad():
        metrics, diagnostics = experiment.finish(net)
    assert metrics.keys() >= {"label", "count", "both", "graph"}
    assert json.loads(json.dumps(diagnostics)) == diagnostics
    assert diagnostics.keys() == {
        *("state_distance", "write_weights", "anchor_weights", "read_weights"),
        *("count_accuracy_by_scale", "count_confusion", "graph_recovery"),
    }


def test_slots_learn_labels_where_a_virtual_node_does_not() -> None:
    config = replace(TINY, assignments=11, learning_rate=3e-3)
    label = {}
    for model in ("vn", "cross-attn"):
        experiment = TwoRadiusExperiment(config, model, seed=0)
        torch.manual_seed(0)
        net = experiment.build()
        optimizer = torch.optim.AdamW(experiment.parameter_groups(net))
        for step in range(100):
            loss, _ = experiment.loss(net, experiment.train_batch(0, step), 0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            label[model] = experiment.evaluate(net, 0)["label"]
    assert label["cross-attn"] > 0.9
    assert label["vn"] < 0.5


def test_messages() -> None:
    with pytest.raises(
        ValueError, match=r"^two-radius: base count 4 at scale 4 gives 16, above num_counts=12\. Raise "
    ):
        PAPER.but(scales=(1, 4), num_counts=12)
    with pytest.raises(ValueError, match=r"unknown module 'anchord'; did you mean 'anchored'\?$"):
        TwoRadiusExperiment(PAPER, "anchord", 0)


def test_the_permutation_task_is_registered_under_its_name() -> None:
    assert get_experiment("two-radius-permutation") is PermutationExperiment


def test_names_labels_only() -> None:
    experiment = PermutationExperiment(PERMUTATION_TINY, "cross-attn", seed=0)
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
        PERMUTATION_TINY.but(channels=8, embedding_channels=12, slots=3, heads=2), "anchored", 0
    )
    net = experiment.build()
    assert isinstance(net, TwoRadiusNet)
    memory = net(experiment.train_batch(0, 0), return_state=True).memory
    assert memory.slots.shape == (7, 3, 8)
    assert net.identifier.weight.shape == (6, 12)


def test_stops_when_solved() -> None:
    experiment = PermutationExperiment(replace(PERMUTATION_TINY, stop_at=0.9), "vn", 0)
    assert experiment.should_stop([{"label": 0.2}, {"label": 0.95}])
    assert not experiment.should_stop([{"label": 0.95}, {"label": 0.2}])
    assert not PermutationExperiment(replace(PERMUTATION_TINY, stop_at=None), "vn", 0).should_stop([{"label": 1.0}])


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: num_identifiers=0, expected at least 1\.$"):
        PERMUTATION_TINY.but(num_identifiers=0)
