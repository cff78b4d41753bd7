"""Official metrics against slow ones."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring.suite.real.metrics import loss_of, official, score


def auc(own: Tensor, true: Tensor) -> float:
    """The share of pairs in the right order, ties counted half."""
    difference = own[true == 1].unsqueeze(1) - own[true == 0]
    return float(((difference > 0).double() + 0.5 * (difference == 0).double()).mean())


def precision(own: Tensor, true: Tensor) -> float:
    """Average precision: the mean over positives of the precision down to them."""
    order = own.argsort(descending=True)
    hits = true[order].cumsum(0)
    return float((hits / torch.arange(1, len(own) + 1))[true[order] == 1].mean())


@pytest.mark.parametrize("far", [0.0, 200.0])
def test_ranks_are_taken_of_each_target_and_averaged(far: float) -> None:
    generator = torch.Generator().manual_seed(0)
    prediction = torch.randn(41, 3, generator=generator) + far
    target = (torch.rand(41, 3, generator=generator) < 0.4).float()
    target[::7, 1] = float("nan")
    there = ~target[:, 1].isnan()
    columns = [
        (prediction[:, 0], target[:, 0]),
        (prediction[there, 1], target[there, 1]),
        (prediction[:, 2], target[:, 2]),
    ]
    for metric, slow in (("roc_auc", auc), ("average_precision", precision)):
        expected = sum(slow(*column) for column in columns) / 3
        assert score(metric, prediction, target) == pytest.approx(expected, abs=1e-6)  # type: ignore[arg-type]


def test_ties_and_targets_of_one_class() -> None:
    prediction = torch.tensor([[1.0, 5.0], [1.0, 6.0], [0.0, 7.0], [2.0, 8.0]])
    target = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    assert score("roc_auc", prediction, target) == pytest.approx(auc(prediction[:, 0], target[:, 0]))
    assert math.isnan(score("roc_auc", prediction[:, 1:], target[:, 1:]))


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision", "rmse", "mae"])
def test_what_is_no_number_has_no_score(metric: Any) -> None:
    target = torch.tensor([[1.0], [0.0], [1.0], [float("nan")]])
    prediction = torch.tensor([[0.3], [0.1], [0.2], [float("nan")]])
    assert math.isfinite(score(metric, prediction, target)), "a missing target is left out, whatever stands beside it"
    prediction[1] = float("nan")
    assert math.isnan(score(metric, prediction, target))


def test_errors() -> None:
    prediction, target = torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[2.0], [4.0], [float("nan")]])
    assert score("rmse", prediction, target) == pytest.approx(math.sqrt(2.5))
    assert score("mae", prediction, target) == pytest.approx(1.5)


def test_losses_leave_out_what_is_missing() -> None:
    prediction = torch.tensor([[0.3, -1.0]], requires_grad=True)
    target = torch.tensor([[1.0, float("nan")]])
    loss = loss_of(True, prediction, target)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log1p(math.exp(-0.3)))
    assert prediction.grad is not None
    assert float(prediction.grad[0, 1]) == 0.0
    assert float(loss_of(False, torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 5.0]]))) == 2.5
    assert float(loss_of(False, torch.tensor([[1.0]]), torch.tensor([[float("nan")]]))) == 0.0


def test_ogb_says_the_same() -> None:
    assert official("func", torch.zeros(2, 10), torch.zeros(2, 10)) is None
    pytest.importorskip("ogb", reason="the official scores are OGB's")
    generator = torch.Generator().manual_seed(0)
    prediction = torch.randn(30, 1, generator=generator)
    for name, metric in (("esol", "rmse"), ("bace", "roc_auc")):
        target = (torch.rand(30, 1, generator=generator) < 0.5).float()
        assert official(name, prediction, target) == pytest.approx(score(metric, prediction, target))  # type: ignore[arg-type]
