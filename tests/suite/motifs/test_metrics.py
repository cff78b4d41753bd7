"""Metrics against numbers worked out by hand."""

import pytest
import torch

from mooring.suite.motifs.metrics import error_by_count, exact_share, log_mae, log_r2, macro, per_motif

COUNTS = torch.tensor([[0.0, 4.0], [1.0, 4.0], [3.0, 0.0]])
TARGET = COUNTS.log1p()


def test_a_perfect_prediction():
    assert macro(TARGET, TARGET) == {"log_mae": 0.0, "log_r2": 1.0, "exact": 1.0}


def test_the_mean_explains_nothing_and_a_worse_guess_less_than_nothing():
    mean = TARGET.mean(dim=0).expand_as(TARGET)
    assert log_r2(mean, TARGET).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    assert (log_r2(mean + 1, TARGET) < 0).all()


def test_where_all_counts_are_equal_there_is_nothing_to_explain():
    equal = torch.ones(3, 2).log1p()
    near = equal + torch.tensor([0.0, 0.5])
    assert log_r2(near, equal).tolist() == [1.0, 0.0]


def test_errors_are_averaged_within_a_motif_first():
    prediction = TARGET + torch.tensor([[0.3, 0.0], [0.0, 0.0], [-0.3, 0.5]])
    assert log_mae(prediction, TARGET).tolist() == pytest.approx([0.2, 0.5 / 3])
    assert macro(prediction, TARGET)["log_mae"] == pytest.approx((0.2 + 0.5 / 3) / 2)
    named = per_motif(prediction, TARGET, ("star", "path"))
    assert named["path"]["log_mae"] == pytest.approx(0.5 / 3)
    assert list(named) == ["star", "path"]


def test_exact_means_right_after_rounding():
    prediction = (COUNTS + torch.tensor([[0.4, 0.6], [0.0, -0.4], [0.0, 0.0]])).log1p()
    assert exact_share(prediction, TARGET).tolist() == pytest.approx([1.0, 2 / 3])


def test_error_by_count_takes_motifs_together():
    prediction = TARGET + torch.tensor([[0.1, 0.2], [0.5, 0.6], [0.7, 0.3]])
    table = error_by_count(prediction, TARGET)
    assert table["count"] == [0, 1, 3, 4]
    assert table["log_mae"] == pytest.approx([0.2, 0.5, 0.7, 0.4])
