"""Metrics of predicted log-counts: macro over motifs, per motif, and by true count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def log_mae(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Return the mean absolute error of the log-count, per motif."""
    return (prediction - target).abs().mean(dim=0)


def log_r2(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Return the explained share of the log-count's variance, per motif; 0 is the best constant.

    If the count is the same in all graphs, the share is 1 for an exact prediction and 0 otherwise.
    """
    residual = (prediction - target).square().mean(dim=0)
    variance = target.var(dim=0, unbiased=False)
    constant = variance == 0
    return torch.where(constant, (residual == 0).to(residual), 1 - residual / variance.masked_fill(constant, 1.0))


def exact_share(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Return the share of counts that are right after rounding, per motif."""
    return (prediction.expm1().round() == target.expm1().round()).float().mean(dim=0)


def macro(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> dict[str, float]:
    """Return the three metrics, each averaged over motifs.

    >>> target = torch.tensor([[0.0], [2.0]])
    >>> macro(target + 0.5, target)
    {'log_mae': 0.5, 'log_r2': 0.75, 'exact': 0.0}
    """
    return {
        "log_mae": float(log_mae(prediction, target).mean()),
        "log_r2": float(log_r2(prediction, target).mean()),
        "exact": float(exact_share(prediction, target).mean()),
    }


def per_motif(
    prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return log-MAE and log-R2 of each motif, keyed by name."""
    errors, shares = log_mae(prediction, target).tolist(), log_r2(prediction, target).tolist()
    return {name: {"log_mae": error, "log_r2": share} for name, error, share in zip(names, errors, shares, strict=True)}


def error_by_count(
    prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]
) -> dict[str, list[float]]:
    """Return the log-MAE at every true count that occurs, over all motifs."""
    counts = target.expm1().round().flatten()
    present, place = counts.unique(return_inverse=True)
    errors = (prediction - target).abs().flatten()
    means = torch.zeros(len(present)).index_add(0, place, errors) / place.bincount()
    return {"count": present.tolist(), "log_mae": means.tolist()}
