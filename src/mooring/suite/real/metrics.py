"""The official metrics, by torchmetrics; and by OGB's own evaluator where it is installed."""

from __future__ import annotations

import importlib.util

from torch import Tensor
from torch.nn import functional
from torchmetrics.functional import mean_absolute_error, mean_squared_error
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from mooring.suite.real.data.catalogue import RISING, Metric, source

# What OGB's evaluator calls them.
OGB_NAMES = {"roc_auc": "rocauc", "average_precision": "ap", "rmse": "rmse", "mae": "mae"}


def score(metric: Metric, prediction: Tensor, target: Tensor) -> float:
    """The mean over targets of a metric of each, missing values left out.

    As OGB's evaluator does, ranks are taken only of targets that have both classes; nan where none has.

    Args:
        metric: which.
        prediction: logits, or values; ``[rows, targets]``.
        target: 0 and 1, or values; NaN where missing.

    >>> import torch
    >>> score("rmse", torch.tensor([[1.0], [5.0]]), torch.tensor([[1.0], [float("nan")]]))
    0.0
    >>> score("roc_auc", torch.tensor([[2.0], [1.0], [0.0]]), torch.tensor([[1.0], [0.0], [1.0]]))
    0.5
    """
    found = []
    for own, true in zip(prediction.double().T, target.double().T, strict=True):
        there = ~true.isnan()
        own, true = own[there], true[there]
        # Sorted among the others it would have a rank like any number.
        if own.isnan().any():
            return float("nan")
        if metric in RISING:
            if true.unique().numel() < 2:
                continue
            rank = binary_auroc if metric == "roc_auc" else binary_average_precision
            found.append(float(rank(_ranks(own), true.long())))
        elif len(true):
            error = mean_squared_error(own, true, squared=False) if metric == "rmse" else mean_absolute_error(own, true)
            found.append(float(error))
    return sum(found) / len(found) if found else float("nan")


def _ranks(values: Tensor) -> Tensor:
    """Numbers in [0, 1) in the order of the values, equal where they are equal.

    Probabilities would not do: far from zero, sigmoids of different logits are the same number.
    """
    return values.unique(return_inverse=True)[1].double() / len(values)


def official(name: str, prediction: Tensor, target: Tensor) -> float | None:
    """What OGB's evaluator says of predictions on one of its sets; None where it is not installed or not OGB's set."""
    loader, metric = source(name).loader, source(name).metric
    if not loader.startswith("ogb: ") or importlib.util.find_spec("ogb") is None:
        return None
    from ogb.graphproppred import Evaluator

    given = {"y_true": target.double().numpy(), "y_pred": prediction.double().numpy()}
    return float(Evaluator(loader.removeprefix("ogb: ")).eval(given)[OGB_NAMES[metric]])


def loss_of(classifies: bool, prediction: Tensor, target: Tensor) -> Tensor:
    """Binary cross entropy, or the squared error, averaged over the targets that are there."""
    there = ~target.isnan()
    own, true = prediction[there], target[there]
    if classifies:
        total = functional.binary_cross_entropy_with_logits(own, true, reduction="sum")
    else:
        total = functional.mse_loss(own, true, reduction="sum")
    return total / max(len(true), 1)
