"""How good predicted log-counts are: macro over motifs, per motif, and by true count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def log_mae(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Mean absolute error of the log-count, per motif."""
    return (prediction - target).abs().mean(dim=0)


def log_r2(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Share of the log-count's variance explained, per motif; 0 is the best constant, and less is worse.

    Where the count is the same in all graphs there is nothing to explain: 1 if it is right, 0 if not.
    """
    residual = (prediction - target).square().mean(dim=0)
    variance = target.var(dim=0, unbiased=False)
    constant = variance == 0
    return torch.where(constant, (residual == 0).to(residual), 1 - residual / variance.masked_fill(constant, 1.0))


def exact_share(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> Tensor:
    """Share of counts that are right after rounding, per motif."""
    return (prediction.expm1().round() == target.expm1().round()).float().mean(dim=0)


def macro(prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]) -> dict[str, float]:
    """The three metrics, each averaged over motifs.

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
    """log-MAE and log-R2 of each motif by name."""
    errors, shares = log_mae(prediction, target).tolist(), log_r2(prediction, target).tolist()
    return {name: {"log_mae": error, "log_r2": share} for name, error, share in zip(names, errors, shares, strict=True)}


def error_by_count(
    prediction: Float[Tensor, "graphs motifs"], target: Float[Tensor, "graphs motifs"]
) -> dict[str, list[float]]:
    """log-MAE at every true count that occurs, all motifs together."""
    counts = target.expm1().round().flatten()
    present, place = counts.unique(return_inverse=True)
    errors = (prediction - target).abs().flatten()
    means = torch.zeros(len(present)).index_add(0, place, errors) / place.bincount()
    return {"count": present.tolist(), "log_mae": means.tolist()}
