from __future__ import annotations

import numpy as np
import pytest

from mooring.suite.linksets.data import LinkDataset, LinkSettings, feasible, generate_many
from mooring.suite.linksets.metrics import (
    THRESHOLDS,
    agreement,
    best_threshold,
    calibration,
    f1_by_size,
    fitting,
    greedy_f1,
    split_metrics,
)

SETTINGS = LinkSettings(nodes=(11, 29), larger_nodes=(31, 37))
GRAPHS = generate_many(SETTINGS, "test", 7, seed=0)


def test_agreement_by_hand() -> None:
    score = agreement(np.array([1, 1, 1, 0, 0], dtype=bool), np.array([1, 1, 0, 1, 1], dtype=bool))
    assert (score.precision, score.recall) == (2 / 3, 2 / 4)
    assert score.f1 == pytest.approx(2 / (3 / 2 + 2))
    assert agreement(np.zeros(3, dtype=bool), np.zeros(3, dtype=bool)).f1 == 1.0


def test_best_threshold_finds_the_gap_between_two_groups() -> None:
    actual = np.arange(20) >= 13
    threshold, f1 = best_threshold(np.where(actual, 0.31, 0.22), actual)
    assert f1 == 1.0
    assert 0.22 < threshold <= 0.31


def test_a_probability_at_the_threshold_counts_as_a_link() -> None:
    actual = np.arange(20) >= 13
    assert best_threshold(np.where(actual, THRESHOLDS[7], THRESHOLDS[6]), actual) == (THRESHOLDS[7], 1.0)
    probability = np.where(GRAPHS.chosen, 0.5, 0.25)
    metrics = split_metrics(GRAPHS, probability, 0.5, SETTINGS, decoded_threshold=0.5)
    assert metrics["f1"] == metrics["decoded_f1"] == 1.0


def test_the_optimum_itself_is_perfect_and_feasible() -> None:
    metrics = split_metrics(GRAPHS, GRAPHS.chosen.astype(float), 0.5, SETTINGS, decoded_threshold=0.5)
    assert metrics["f1"] == metrics["decoded_f1"] == metrics["feasible"] == metrics["confidence"] == 1.0
    assert metrics["calibration_error"] == 0.0
    assert not any(value for name, value in metrics.items() if "violations" in name)


def test_everything_at_once_breaks_two_rules_until_decoded() -> None:
    metrics = split_metrics(GRAPHS, np.full(len(GRAPHS.chosen), 0.6), 0.5, SETTINGS, decoded_threshold=0.5)
    assert metrics["recall"] == 1.0
    assert metrics["precision"] == pytest.approx(GRAPHS.chosen.mean())
    assert metrics["violations_degree"] > 0.1
    assert metrics["violations_sector"] > 0.05
    assert metrics["violations_parity"] == 0.0
    assert metrics["feasible"] < 1.0
    assert metrics["decoded_feasible"] == 1.0
    assert metrics["decoded_violations_degree"] == metrics["decoded_violations_sector"] == 0.0
    assert metrics["decoded_f1"] != metrics["f1"]
    assert metrics["calibration_error"] == pytest.approx(abs(0.6 - GRAPHS.chosen.mean()))


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.62, 0.95])
def test_one_pass_decodes_for_every_threshold(threshold: float) -> None:
    rng = np.random.default_rng(3)
    probability = rng.uniform(size=len(GRAPHS.chosen)).round(2)
    parts = np.split(probability, GRAPHS.pair_start[1:-1])
    each = [feasible(GRAPHS[index], part, SETTINGS, threshold=threshold) for index, part in enumerate(parts)]
    found = fitting(GRAPHS, probability, SETTINGS) >= threshold
    assert found.tolist() == np.concatenate(each).tolist()
    assert found.any()


def test_a_set_is_decoded_with_its_own_threshold() -> None:
    """Half of the optimum is likely, half is not, and whatever does not fit beside it is unlikely too."""
    likely = GRAPHS.chosen & (np.arange(len(GRAPHS.chosen)) % 2 == 0)
    probability = np.where(likely, 0.9, np.where(GRAPHS.chosen, 0.2, 0.1))
    low, high = (
        split_metrics(GRAPHS, probability, 0.5, SETTINGS, decoded_threshold=threshold) for threshold in (0.15, 0.5)
    )
    assert low["f1"] == high["f1"] == high["decoded_f1"] < 1
    assert low["decoded_f1"] == 1


def test_calibration_bins_by_hand() -> None:
    probability = np.array([0.04, 0.06, 0.93, 1.0, 0.97, 0.95])
    bins = calibration(probability, np.array([0, 1, 1, 1, 0, 1], dtype=bool))
    assert bins["confidence"] == pytest.approx([0.05, 0.9625])
    assert bins["frequency"] == [0.5, 0.75]
    assert bins["weight"] == pytest.approx([1 / 3, 2 / 3])


def test_f1_by_size_separates_graphs() -> None:
    sizes = np.diff(GRAPHS.node_start)
    middle = int(np.sort(sizes)[3])
    wrong = np.repeat(sizes >= middle, np.diff(GRAPHS.pair_start))
    result = f1_by_size(GRAPHS, GRAPHS.chosen ^ wrong, [2, middle, 100, 200])
    assert result["f1"] == [1.0, 0.0]
    assert result["nodes"] == [
        pytest.approx(sizes[sizes < middle].mean()),
        pytest.approx(sizes[sizes >= middle].mean()),
    ]


def test_greedy_is_good_but_not_perfect() -> None:
    assert 0.5 < greedy_f1(GRAPHS, SETTINGS) < 1.0
    random = LinkDataset({**GRAPHS.arrays, "weight": np.random.default_rng(0).permutation(GRAPHS.weight)})
    assert greedy_f1(random, SETTINGS) < greedy_f1(GRAPHS, SETTINGS) - 0.1
