import dataclasses
import math
from typing import Any

import pytest

from mooring.theory import TrainedPoint, distortion_series, recovery_ceiling, trained_points
from mooring.theory.curve import label_series
from mooring.train.experiment import get_experiment


def record(model: str, label: float, **config: Any) -> dict[str, Any]:
    sizes = {"num_identifiers": 12, "num_centres": 1, "layers": 2, "slots": 3, "channels": 5}
    return {
        "task": "two-radius-permutation",
        "model": model,
        "config": {**sizes, **config},
        "metrics": {"best": {"label": label}},
    }


def test_points_come_from_records_of_the_task_and_size_only() -> None:
    records = [
        record("cross-attn", 0.5),
        record("vn", 0.25),
        record("mpnn", 0.125),
        record("cross-attn", 0.9, num_identifiers=7),
        {**record("cross-attn", 0.9), "task": "two-radius"},
    ]
    # States times width times bits: three slots, one or none, and the centre in both layers.
    assert trained_points(records, 12, bits_per_coordinate=7) == [
        TrainedPoint("cross-attn", (3 + 2) * 5 * 7.0, 0.5),
        TrainedPoint("vn", (1 + 2) * 5 * 7.0, 0.25),
        TrainedPoint("mpnn", 2 * 5 * 7.0, 0.125),
    ]


def test_budget_reads_the_config_of_the_permutation_experiment() -> None:
    config = dataclasses.asdict(get_experiment("two-radius-permutation").presets["tiny"])
    (point,) = trained_points([record("cross-attn", 1.0, **config)], config["num_identifiers"])
    assert point.bits == 32 * config["channels"] * (config["slots"] + config["layers"])


def test_trained_points_stand_on_the_curve_at_their_budget() -> None:
    points = [TrainedPoint("anchored", 6.0, 0.25), TrainedPoint("anchored", 6.0, 0.2), TrainedPoint("vn", 31.0, 0.1)]
    series = distortion_series(12, points)
    lines = dict(series.lines)
    at = list(series.x).index(6.0)
    assert lines["trained: anchored"][at] == 0.25
    assert [y for y in lines["trained: anchored"] if y is not None] == [0.25]
    assert lines["ceiling (no scheme does better)"][at] == pytest.approx(recovery_ceiling(12, 6.0))
    assert (series.x[0], series.log) == (0.0, "")


def test_a_generous_memory_turns_the_axis_logarithmic() -> None:
    series = distortion_series(12, [TrainedPoint("cross-attn", 5000.0, 1.0)])
    assert (series.x[0], series.x[-1], series.log) == (1.0, 5000.0, "x")


def test_label_series_ends_in_full_recovery() -> None:
    assert all(y[-1] == 1.0 for _, y in label_series(10).lines)


def test_a_stored_share_of_labels_is_recovered_and_chance_gives_its_part_of_the_rest() -> None:
    series = label_series(10)
    ceiling, table = (list(y) for _, y in series.lines)
    assert table[0] == pytest.approx(0.1)
    assert table[20] == pytest.approx(0.5 + 0.5 / 10)
    assert all(above >= below - 1e-12 for above, below in zip(ceiling, table, strict=True))
    assert series.x[40] == pytest.approx(math.log2(10))
