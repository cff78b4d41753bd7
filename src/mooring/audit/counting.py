"""Counting: replication, and a fitted probe that recovers the count from the output."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mooring.audit.adapters import Adapter, random_graph, relative_difference, single
from mooring.audit.card import Finding

# A smaller change comes from an epsilon in a denominator, which a model cannot use.
BLIND = 1e-6
# Share of the variance of log n that a probe must explain on unseen multisets.
COUNTS = 0.9
COLOURS = 3
# Numbers of multisets: to fit the probe, and unseen ones to judge it.
SAMPLES = (300, 90)
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Fits are rounded to this many decimals: LAPACK's last digits depend on memory alignment.
DECIMALS = 9
# Probe, kernel width, ridge.
CANDIDATES = (
    *((probe, 1.0, ridge) for probe in ("linear", "log", "log-log") for ridge in RIDGES),
    *(("kernel", width, ridge) for width in (1.0, 3.0, 10.0, 30.0) for ridge in RIDGES),
)


def replication(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure whether f(rX) = f(X), and if not, whether the count can be recovered from the output.

    The probe sees multisets over a small alphabet of colours, of varying base size and multiplicity. All nodes are
    replicated, because an unreplicated node would act as an anchor. For a module with node outputs the features are the
    output of one node of constant colour, so that only the other nodes can reveal the count.

    Paper: prop:replication, thm:wlinjective.
    """
    generator = torch.Generator().manual_seed(seed)
    change, case = 0.0, "none"
    for trial in range(trials):
        # Use sizes and multiplicities of both parities; otherwise a module sensitive only to parity would be reported
        # as blind.
        nodes = 2 + trial % 11
        graph = random_graph(generator, nodes, adapter.channels)
        for times in (2, 3 + trial % 5):
            with torch.no_grad():
                once = adapter(graph)
                many = adapter(graph.replicate(times))[: once.size(0)]
            error = relative_difference(many, once)
            if error > change:
                change, case = error, f"{nodes} nodes repeated {times} times"
    explanation = f"largest relative change from X to rX, called blind below {BLIND:g}"
    if change <= BLIND:
        return Finding(
            "replication", "blind: f(rX) = f(X)", change, case, 2 * trials, explanation, details={"change": change}
        )
    alphabet = torch.randn(COLOURS, adapter.channels, generator=generator, dtype=torch.float64)
    train, held_out = (_multisets(adapter, alphabet, size, generator) for size in SAMPLES)
    result = count_probe(train, held_out)
    counts = result.r2 >= COUNTS
    percent = 100 * math.expm1(result.log_error)
    within = "below 0.1 %" if percent < 0.1 else f"{percent:.2g} %"
    verdict = f"counts: n recovered, median error {within}" if counts else "sees copies, but n is not recovered"
    return Finding(
        name="replication",
        verdict=verdict,
        value=result.r2,
        worst_case=case,
        trials=2 * trials + sum(SAMPLES),
        explanation=f"held-out R² of log n read from the output by a fitted probe, counts from {COUNTS}; {explanation}",
        details={
            "change": change,
            "r2": result.r2,
            "log_error": result.log_error,
            "probe": result.probe,
            "counts": counts,
        },
    )


def _multisets(adapter: Adapter, alphabet: Tensor, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    features, counts = [], []
    for _ in range(samples):
        base, times = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((2, 12), (1, 8)))
        colours = torch.randint(COLOURS, (base,), generator=generator)
        colours[0] = 0
        with torch.no_grad():
            features.append(adapter(single(alphabet[colours]).replicate(times))[0])
        counts.append(base * times)
    return torch.stack(features).double(), torch.tensor(counts, dtype=torch.float64)


class ProbeResult(NamedTuple):
    """Held-out quality of the best probe: R² and median absolute error of log n, and the name of the probe."""

    r2: float
    log_error: float
    probe: str


def count_probe(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> ProbeResult:
    """Fit log n from features by ridge regression, and judge the fit on held-out samples.

    A count may be stored linearly (a sum), as a logarithm (a mass), as a power law, or distorted by later layers. So
    there are four probes: features to n, features to log n, log-features to log n, and a Gaussian kernel to log n.
    Probe, width and ridge are chosen on a third of the training samples; the held-out samples judge a single fit.

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
    return ProbeResult(round(r2, DECIMALS), round(float(residual.abs().median()), DECIMALS), best[0])


def _predict(probe: str, width: float, ridge: float, features: Tensor, counts: Tensor, query: Tensor) -> Tensor:
    """Return the predicted log n of ``query``."""
    # A constant column contains rounding noise only; dividing by its spread would turn the noise into a feature.
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
    """Return kernel values against a subset of the samples; ``width`` is in units of the median squared distance."""
    centres = design[::2]
    distance, distance_query = (torch.cdist(part, centres).square() for part in (design, query))
    scale = width * distance.median().clamp_min(1e-300)
    return torch.exp(-distance / scale), torch.exp(-distance_query / scale)
