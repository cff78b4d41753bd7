"""Scores of known answers, and diagnostics of networks that are blind or count."""

import math
from typing import Any

import pytest
import torch

from mooring.suite.two_radius import Answer, TwoRadiusExperiment
from mooring.suite.two_radius.data import CountedTask, TwoRadiusBatch, stream
from mooring.suite.two_radius.experiment import TINY
from mooring.suite.two_radius.metrics import accuracies, count_accuracy, diagnose, losses, mean_scores, right

TWO_SCALES = CountedTask(num_identifiers=5, scales=(1, 2))


def answer(batch: TwoRadiusBatch, wrong_label: int = 0, wrong_count: int = 0, counts: bool = True) -> Answer:
    """Certain answers, of which the first ones are wrong."""
    label, count = batch.y_label.clone(), batch.y_count - 1
    label[:wrong_label] = (label[:wrong_label] + 1) % 5
    count[:wrong_count] = (count[:wrong_count] + 1) % 8
    one_hot = torch.nn.functional.one_hot
    return Answer(1e3 * one_hot(label, 5).float(), 1e3 * one_hot(count, 8).float() if counts else None, None)


def test_both_needs_both_and_graph_needs_every_target() -> None:
    batch = TWO_SCALES.batch(5, stream(0, "train"))
    scores = accuracies(answer(batch, wrong_label=1, wrong_count=7), batch)
    assert {name: float(value) for name, value in scores.items()} == pytest.approx(
        {"label": 0.98, "count": 0.86, "both": 0.86, "graph": 0.8}
    )


def test_what_is_no_number_names_nothing() -> None:
    batch = TWO_SCALES.batch(5, stream(0, "train"))
    given = answer(batch)
    given.label[3, 1] = given.count[7, 0] = float("nan")
    hits = right(given, batch)
    assert (~hits["label"]).nonzero().flatten().tolist() == [3]
    assert (~hits["count"]).nonzero().flatten().tolist() == [7]


def test_label_alone() -> None:
    batch = TWO_SCALES.batch(5, stream(0, "train"))
    scores = accuracies(answer(batch, wrong_label=6, counts=False), batch)
    assert {name: float(value) for name, value in scores.items()} == pytest.approx({"label": 0.88, "graph": 0.8})


def test_losses_of_uniform_and_certain_answers() -> None:
    batch = TWO_SCALES.batch(5, stream(0, "train"))
    uniform = losses(Answer(torch.zeros(50, 5), torch.zeros(50, 8), None), batch)
    assert float(uniform["label_loss"]) == pytest.approx(math.log(5))
    assert float(uniform["count_loss"]) == pytest.approx(math.log(8))
    assert float(losses(answer(batch), batch)["count_loss"]) == 0.0


def test_minibatches_count_by_their_graphs() -> None:
    small, large = TWO_SCALES.batch(1, stream(0, "train")), TWO_SCALES.batch(3, stream(0, "train", step=1))
    scores = mean_scores([(answer(small, wrong_label=10), small), (answer(large), large)])
    assert scores["label"] == pytest.approx(0.75)
    assert scores["count"] == 1.0


TASK = CountedTask(num_identifiers=5, rendering="full")
CONFIG = TINY.but(slots=7)


def diagnostics(model: str) -> dict[str, Any]:
    torch.manual_seed(0)
    net = TwoRadiusExperiment(CONFIG, model, seed=0).build().eval()
    batch = TASK.batch(3, stream(0, "test"))
    with torch.no_grad():
        return diagnose(net, TASK.batch(1, stream(0, "diagnostic")), [(net(batch), batch)])


@pytest.mark.parametrize(
    ("model", "blind"), [("vn", True), ("cross-attn", True), ("vn-sum", False), ("anchored", False)]
)
def test_state_distance_tells_blind_from_counting(model: str, blind: bool) -> None:
    distance = diagnostics(model)["state_distance"]
    assert distance["scales"] == [1, 2, 3]
    assert distance["max"][0] == distance["mean"][0] == 0.0
    assert all(value < 1e-5 if blind else value > 1e-3 for value in distance["max"][1:])


def test_weights_are_tables_by_identifier_and_slot() -> None:
    found = diagnostics("anchored")
    write, read = torch.tensor(found["write_weights"]), torch.tensor(found["read_weights"])
    assert write.shape == read.shape == (5, 7)
    torch.testing.assert_close(write.sum(dim=0), torch.ones(7))
    torch.testing.assert_close(read.sum(dim=1), torch.ones(5))
    anchors = torch.tensor([found["anchor_weights"][scale] for scale in ("1", "2", "3")])
    assert anchors.shape == (3, 7)
    assert (anchors[:-1] > anchors[1:]).all()


def test_what_a_module_lacks_is_none() -> None:
    assert diagnostics("cross-attn")["anchor_weights"] is None
    without = diagnostics("mpnn")
    assert [without[name] for name in ("state_distance", "write_weights", "anchor_weights", "read_weights")] == [
        None
    ] * 4


def test_counts_are_confused_row_by_row() -> None:
    batch = TASK.batch(11, stream(0, "test"))
    says = torch.full((len(batch.y_count),), 3)
    one_hot = torch.nn.functional.one_hot
    pair = (Answer(one_hot(batch.y_label, 5).float(), one_hot(says - 1, 12).float(), None), batch)
    found = count_accuracy([pair, pair])
    confusion = torch.tensor(found["count_confusion"])
    assert torch.equal(confusion.sum(dim=1), 2 * torch.bincount(batch.y_count - 1, minlength=12))
    assert confusion[:, 2].sum() == confusion.sum()
    threes = (batch.y_count.view(-1, 5) == 3).double().mean(dim=1)
    assert found["count_accuracy_by_scale"]["1"] == pytest.approx(float(threes[batch.scale == 1].mean()))
    assert found["count_accuracy_by_scale"]["2"] == 0.0
    assert found["graph_recovery"] == 0.0
