"""A small fitted probe: can a number be read from features?"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Probe, kernel width, ridge.
CANDIDATES = (
    *((probe, 1.0, ridge) for probe in ("linear", "log", "log-log") for ridge in RIDGES),
    *(("kernel", width, ridge) for width in (1.0, 3.0, 10.0, 30.0) for ridge in RIDGES),
)


class ProbeResult(NamedTuple):
    """Held-out quality of the best probe: R² and the median absolute error of log n, and which probe it was."""

    r2: float
    log_error: float
    probe: str


def count_probe(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> ProbeResult:
    """Fit log n from features by ridge regression, and judge it on held-out samples.

    Four probes, as a count may be stored linearly (a sum), as a logarithm (a mass), as a power law, or bent by the
    layers after it: features to n, features to log n, log-features to log n, and a Gaussian kernel to log n. Probe,
    width and ridge are chosen on a third of the training samples, so that the held-out ones judge a single fit.

    Shapes:
        features ``[samples, dim]``, counts ``[samples]``.
    """
    features, counts = train
    third = features.size(0) // 3
    fit, choose = slice(third, None), slice(0, third)
    best, best_error = CANDIDATES[0], float("inf")
    for candidate in CANDIDATES:
        predicted = _predict(*candidate, features[fit], counts[fit], features[choose])
        error = float((predicted - counts[choose].log()).square().mean())
        if error < best_error:
            best, best_error = candidate, error
    predicted = _predict(*best, features, counts, held_out[0])
    target = held_out[1].log()
    residual = predicted - target
    r2 = 1.0 - float(residual.square().sum() / (target - target.mean()).square().sum())
    return ProbeResult(r2, float(residual.abs().median()), best[0])


def _predict(probe: str, width: float, ridge: float, features: Tensor, counts: Tensor, query: Tensor) -> Tensor:
    """Return the predicted log n of ``query``."""
    # A constant column carries rounding noise only; dividing by its spread would turn that noise into a feature.
    alive = features.std(0) > 1e-11 * (features.abs().amax(0) + 1e-300)
    features, query = features[:, alive], query[:, alive]
    if probe == "log-log":
        floor = 1e-12 * features.abs().amax(0) + 1e-300
        features, query = (torch.cat([part, (part.abs() + floor).log()], dim=1) for part in (features, query))
    mean, std = features.mean(0), features.std(0).clamp_min(1e-300)
    design, design_query = ((part - mean) / std for part in (features, query))
    target = counts if probe == "linear" else counts.log()
    offset = target.mean()
    if probe == "kernel":
        design, design_query = _gaussian(design, design_query, width)
    samples, dim = design.shape
    gram = design.T @ design + ridge * samples * torch.eye(dim, dtype=design.dtype)
    weight = torch.linalg.lstsq(gram, (design.T @ (target - offset)).unsqueeze(1)).solution.squeeze(1)
    predicted = design_query @ weight + offset
    return predicted.clamp_min(0.5).log() if probe == "linear" else predicted


def _gaussian(design: Tensor, query: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Return kernel values against a subset of the samples, the width in units of their median squared distance."""
    centres = design[::2]
    distance, distance_query = (torch.cdist(part, centres).square() for part in (design, query))
    scale = width * distance.median().clamp_min(1e-300)
    return torch.exp(-distance / scale), torch.exp(-distance_query / scale)
