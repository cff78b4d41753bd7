"""Official metrics, by torchmetrics, and by OGB's evaluator if it is installed."""

from __future__ import annotations

import importlib.util

from torch import Tensor
from torch.nn import functional
from torchmetrics.functional import mean_absolute_error, mean_squared_error
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from mooring.suite.real.data.catalogue import RISING, Metric, source

# Names of the metrics in OGB's evaluator.
OGB_NAMES = {"roc_auc": "rocauc", "average_precision": "ap", "rmse": "rmse", "mae": "mae"}


def score(metric: Metric, prediction: Tensor, target: Tensor) -> float:
    """Return the mean over targets of a metric of each; missing values are ignored.

    As in OGB's evaluator, ranking metrics use only targets that have both classes; NaN if there is none.

    Args:
        metric: name of the metric.
        prediction: logits or values, ``[rows, targets]``.
        target: 0 and 1, or values; NaN if missing.

    >>> import torch
    >>> score("rmse", torch.tensor([[1.0], [5.0]]), torch.tensor([[1.0], [float("nan")]]))
    0.0
    >>> score("roc_auc", torch.tensor([[2.0], [1.0], [0.0]]), torch.tensor([[1.0], [0.0], [1.0]]))
    0.5
    """
    scores = []
    for predicted, true in zip(prediction.double().T, target.double().T, strict=True):
        present = ~true.isnan()
        predicted, true = predicted[present], true[present]
        # In a sort, NaN would have a rank like any number.
        if predicted.isnan().any():
            return float("nan")
        if metric in RISING:
            if true.unique().numel() < 2:
                continue
            rank = binary_auroc if metric == "roc_auc" else binary_average_precision
            scores.append(float(rank(_ranks(predicted), true.long())))
        elif len(true):
            squared = metric == "rmse"
            error = (
                mean_squared_error(predicted, true, squared=False) if squared else mean_absolute_error(predicted, true)
            )
            scores.append(float(error))
    return sum(scores) / len(scores) if scores else float("nan")


def _ranks(values: Tensor) -> Tensor:
    """Return numbers in [0, 1) in the order of the values; equal values have equal numbers.

    Probabilities would not work: sigmoids of different large logits round to the same number.
    """
    return values.unique(return_inverse=True)[1].double() / len(values)


def official(name: str, prediction: Tensor, target: Tensor) -> float | None:
    """Return OGB's evaluation of predictions on one of its sets; None for other sets, or if OGB is not installed."""
    loader, metric = source(name).loader, source(name).metric
    if not loader.startswith("ogb: ") or importlib.util.find_spec("ogb") is None:
        return None
    from ogb.graphproppred import Evaluator

    arrays = {"y_true": target.double().numpy(), "y_pred": prediction.double().numpy()}
    return float(Evaluator(loader.removeprefix("ogb: ")).eval(arrays)[OGB_NAMES[metric]])


def loss_of(classifies: bool, prediction: Tensor, target: Tensor) -> Tensor:
    """Return the binary cross entropy or the squared error, averaged over the targets that are not NaN."""
    present = ~target.isnan()
    predicted, true = prediction[present], target[present]
    if classifies:
        total = functional.binary_cross_entropy_with_logits(predicted, true, reduction="sum")
    else:
        total = functional.mse_loss(predicted, true, reduction="sum")
    return total / max(len(true), 1)
