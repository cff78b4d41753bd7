"""Metrics of link sets: agreement with the optimum, calibration, and broken rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.suite.linksets.data import (
    CONSTRAINTS,
    LinkDataset,
    LinkGraph,
    LinkSettings,
    adjacency,
    feasible,
    greedy,
    violations,
)

THRESHOLDS = np.linspace(0.05, 0.95, 37)
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Agreement:
    """Numbers of correct, predicted and actual links."""

    found: int
    predicted: int
    actual: int

    @property
    def precision(self) -> float:
        return self.found / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        return self.found / max(self.actual, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 if there are no actual and no predicted links."""
        both = self.predicted + self.actual
        return 2 * self.found / both if both else 1.0


def agreement(predicted: NDArray[np.bool_], actual: NDArray[np.bool_]) -> Agreement:
    """Compare two selections among the same pairs."""
    return Agreement(int((predicted & actual).sum()), int(predicted.sum()), int(actual.sum()))


def best_threshold(probability: NDArray[np.floating], actual: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold with the highest F1 (the lowest of several), and that F1.

    Each model has a separate threshold, chosen on validation graphs. At a fixed 0.5 an uncertain model would be
    penalised twice, for its uncertainty and for predicting nothing.
    """
    scores = [agreement(probability >= threshold, actual).f1 for threshold in THRESHOLDS]
    best = int(np.argmax(scores))
    return float(THRESHOLDS[best]), scores[best]


def fitting(dataset: LinkDataset, probability: NDArray[np.float64], settings: LinkSettings) -> NDArray[np.float64]:
    """Keep the probabilities of the pairs that fit, added from the likeliest on; set all others to zero.

    The pairs above a threshold are those that :func:`~mooring.suite.linksets.data.feasible` adds with that threshold: a
    pair below it never blocks a pair above.
    """
    fits = [feasible(graph, part, settings, threshold=0.0) for graph, part in _by_graph(dataset, probability)]
    return np.where(np.concatenate(fits), probability, 0.0)


def split_metrics(
    dataset: LinkDataset,
    probability: NDArray[np.float64],
    threshold: float,
    settings: LinkSettings,
    *,
    decoded_threshold: float,
) -> dict[str, float]:
    """Return F1 and its parts, broken rules before and after decoding, log loss and calibration error.

    Decoding drops links that do not fit, so its threshold can be lower.
    """
    taken = fitting(dataset, probability, settings) >= decoded_threshold
    metrics: dict[str, float] = {}
    for prefix, links in (("", probability >= threshold), ("decoded_", taken)):
        match = agreement(links, dataset.chosen)
        metrics |= {f"{prefix}{name}": getattr(match, name) for name in ("f1", "precision", "recall")}
        rates = [violations(graph, adjacency(graph, part), settings) for graph, part in _by_graph(dataset, links)]
        metrics |= {
            f"{prefix}violations_{name}": float(np.mean([rate[name] for rate in rates])) for name in CONSTRAINTS
        }
        metrics[f"{prefix}feasible"] = float(np.mean([not any(rate.values()) for rate in rates]))
    metrics["log_loss"] = log_loss(probability, dataset.chosen)
    metrics["confidence"] = float(np.maximum(probability, 1 - probability).mean())
    bins = calibration(probability, dataset.chosen)
    gaps = np.abs(np.subtract(bins["confidence"], bins["frequency"]))
    metrics["calibration_error"] = float(np.dot(gaps, bins["weight"]))
    return metrics


def log_loss(probability: NDArray[np.floating], actual: NDArray[np.bool_]) -> float:
    """Return the mean negative logarithm of the probability of what is true."""
    likely = np.clip(np.where(actual, probability, 1 - probability), 1e-7, 1.0)
    return float(-np.log(likely).mean())


def calibration(probability: NDArray[np.float64], actual: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Return mean probability, share of true links and share of pairs of each non-empty bin."""
    bins = np.minimum((probability * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    used = [bins == number for number in range(CALIBRATION_BINS) if (bins == number).any()]
    return {
        "confidence": [float(probability[members].mean()) for members in used],
        "frequency": [float(actual[members].mean()) for members in used],
        "weight": [float(members.mean()) for members in used],
    }


def f1_by_size(dataset: LinkDataset, predicted: NDArray[np.bool_], edges: Sequence[int]) -> dict[str, list[float]]:
    """Return F1 per range of sizes, ``edges[k] <= nodes < edges[k + 1]``; empty ranges are omitted."""
    sizes = np.diff(dataset.node_start)
    pair_size = np.repeat(sizes, np.diff(dataset.pair_start))
    result: dict[str, list[float]] = {"nodes": [], "f1": []}
    for low, high in itertools.pairwise(edges):
        graphs, pairs = (sizes >= low) & (sizes < high), (pair_size >= low) & (pair_size < high)
        if graphs.any():
            result["nodes"].append(float(sizes[graphs].mean()))
            result["f1"].append(agreement(predicted[pairs], dataset.chosen[pairs]).f1)
    return result


def greedy_f1(dataset: LinkDataset, settings: LinkSettings) -> float:
    """Return the F1 of the greedy solver, the reference without training."""
    links = [greedy(dataset[index], settings) for index in range(len(dataset))]
    return agreement(np.concatenate(links), dataset.chosen).f1


def _by_graph(dataset: LinkDataset, pairs: NDArray[Any]) -> list[tuple[LinkGraph, NDArray[Any]]]:
    """Return each graph with its part of an array over all pairs."""
    return [(dataset[index], part) for index, part in enumerate(np.split(pairs, dataset.pair_start[1:-1]))]
