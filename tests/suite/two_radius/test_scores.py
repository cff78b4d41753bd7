import math

import pytest
import torch

from mooring.suite.two_radius import Answer
from mooring.suite.two_radius.data import CountedTask, TwoRadiusBatch, stream
from mooring.suite.two_radius.metrics import accuracies, losses, mean_scores

TASK = CountedTask(num_identifiers=5, scales=(1, 2))


def answer(batch: TwoRadiusBatch, wrong_label: int = 0, wrong_count: int = 0, counts: bool = True) -> Answer:
    """Certain answers, of which the first ones are wrong."""
    label, count = batch.y_label.clone(), batch.y_count - 1
    label[:wrong_label] = (label[:wrong_label] + 1) % 5
    count[:wrong_count] = (count[:wrong_count] + 1) % 8
    one_hot = torch.nn.functional.one_hot
    return Answer(1e3 * one_hot(label, 5).float(), 1e3 * one_hot(count, 8).float() if counts else None, None)


def test_both_needs_both_and_graph_needs_every_target() -> None:
    batch = TASK.batch(5, stream(0, "train"))
    scores = accuracies(answer(batch, wrong_label=1, wrong_count=7), batch)
    assert {name: float(value) for name, value in scores.items()} == pytest.approx(
        {"label": 0.98, "count": 0.86, "both": 0.86, "graph": 0.8}
    )


def test_label_alone() -> None:
    batch = TASK.batch(5, stream(0, "train"))
    scores = accuracies(answer(batch, wrong_label=6, counts=False), batch)
    assert {name: float(value) for name, value in scores.items()} == pytest.approx({"label": 0.88, "graph": 0.8})


def test_losses_of_uniform_and_certain_answers() -> None:
    batch = TASK.batch(5, stream(0, "train"))
    uniform = losses(Answer(torch.zeros(50, 5), torch.zeros(50, 8), None), batch)
    assert float(uniform["label_loss"]) == pytest.approx(math.log(5))
    assert float(uniform["count_loss"]) == pytest.approx(math.log(8))
    assert float(losses(answer(batch), batch)["count_loss"]) == 0.0


def test_minibatches_count_by_their_graphs() -> None:
    small, large = TASK.batch(1, stream(0, "train")), TASK.batch(3, stream(0, "train", step=1))
    scores = mean_scores([(answer(small, wrong_label=10), small), (answer(large), large)])
    assert scores["label"] == pytest.approx(0.75)
    assert scores["count"] == 1.0
