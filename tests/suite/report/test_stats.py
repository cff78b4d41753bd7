"""The interval formula against scipy's, and the paired one by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from mooring.suite.report.groups import Estimate, estimate, paired_difference


@pytest.mark.parametrize("number", [2, 3, 5, 13])
def test_interval_equals_scipys(number: int) -> None:
    values = np.random.default_rng(number).normal(0.7, 0.1, number)
    low, high = scipy_stats.t.interval(0.95, number - 1, loc=values.mean(), scale=scipy_stats.sem(values))
    found = estimate(values.tolist())
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    # The normal quantile would be too narrow for so few seeds, and must not pass for Student's.
    assert found.half_width != pytest.approx(1.96 * scipy_stats.sem(values), rel=1e-3)


def test_one_value_has_no_interval() -> None:
    assert estimate([0.25]) == Estimate(0.25, None, 1)
    assert not estimate([0.25]).excludes_zero()


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    found = [estimate(generator.normal(3.0, 2.0, 5).tolist()) for _ in range(2000)]
    covered = sum(item.low < 3.0 < item.high for item in found) / len(found)
    assert covered == pytest.approx(0.95, abs=0.015)


def test_paired_difference_uses_shared_seeds_only() -> None:
    # Differences 0.1, 0.2, 0.3: mean 0.2, s = 0.1, t(0.975, 2) = 4.302653.
    found = paired_difference({0: 0.6, 1: 0.9, 2: 0.5, 7: 9.0}, {0: 0.5, 1: 0.7, 2: 0.2, 8: -9.0})
    assert found.mean == pytest.approx(0.2)
    assert found.half_width == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert found.count == 3


def test_pairing_matters() -> None:
    first = {0: 0.10, 1: 0.50, 2: 0.90}
    second = {0: 0.05, 1: 0.44, 2: 0.86}
    assert paired_difference(first, second).excludes_zero()
    shuffled = {0: 0.86, 1: 0.44, 2: 0.05}
    assert not paired_difference(first, shuffled).excludes_zero()


def test_messages() -> None:
    with pytest.raises(ValueError, match=r"^estimate: no values\. Give at least one seed\.$"):
        estimate([])
    with pytest.raises(
        ValueError, match=r"^paired_difference: the two models share no seed\. Run both with the same seeds\.$"
    ):
        paired_difference({0: 1.0}, {1: 1.0})
