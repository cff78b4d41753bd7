from typing import Any

import pytest

from mooring.theory import TrainedPoint, distortion_series, recovery_ceiling, trained_points
from mooring.theory.curve import label_series


def record(model: str, label: float, **config: Any) -> dict[str, Any]:
    return {
        "task": "two-radius-permutation",
        "model": model,
        "config": {"num_identifiers": 12, "slots": 3, "channels": 2, **config},
        "metrics": {"best": {"label": label}},
    }


def test_points_come_from_records_of_the_task_and_size_only() -> None:
    records = [
        record("anchored", 0.5, bits=1),
        record("vn", 0.25),
        record("anchored", 0.9, num_identifiers=7),
        {**record("anchored", 0.9), "task": "two-radius"},
    ]
    assert trained_points(records, 12) == [TrainedPoint("anchored", 6.0, 0.5), TrainedPoint("vn", 192.0, 0.25)]
    assert trained_points(records, 12, bits_per_coordinate=4)[1].bits == 24.0


def test_trained_points_stand_on_the_curve_at_their_budget() -> None:
    points = [TrainedPoint("anchored", 6.0, 0.2), TrainedPoint("anchored", 6.0, 0.25), TrainedPoint("vn", 192.0, 0.1)]
    series = distortion_series(12, points)
    lines = dict(series.lines)
    at = list(series.x).index(6.0)
    assert lines["trained: anchored"][at] == 0.25
    assert [y for y in lines["trained: anchored"] if y is not None] == [0.25]
    assert lines["ceiling (no scheme does better)"][at] == pytest.approx(recovery_ceiling(12, 6.0))
    assert series.x[-1] == 192.0


def test_label_series_ends_in_full_recovery() -> None:
    assert all(y[-1] == 1.0 for _, y in label_series(10).lines)
