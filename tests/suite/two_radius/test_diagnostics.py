from dataclasses import replace
from typing import Any

import pytest
import torch

from mooring.suite.two_radius import Answer, TwoRadiusExperiment
from mooring.suite.two_radius.data import CountedTask, stream
from mooring.suite.two_radius.experiment import TINY
from mooring.suite.two_radius.metrics import count_accuracy, diagnose

TASK = CountedTask(num_identifiers=5, rendering="full")
CONFIG = replace(TINY, slots=7)


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
