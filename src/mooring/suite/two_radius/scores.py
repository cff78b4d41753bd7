"""Losses and accuracies of Two-Radius answers."""

from collections import defaultdict
from collections.abc import Iterable

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import cross_entropy

from mooring.suite.two_radius.data import TwoRadiusBatch

from .model import Answer


def losses(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Cross-entropies of the labels and, where they are asked for, of the counts (class ``c - 1`` is count ``c``)."""
    parts = {"label_loss": cross_entropy(answer.label, batch.y_label)}
    if answer.count is not None:
        parts["count_loss"] = cross_entropy(answer.count, batch.y_count - 1)
    return parts


def right(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Bool[Tensor, " targets"]]:
    """Which targets are right: in label, in count and in both, or in label alone where counts are not asked for."""
    label = answer.label.argmax(dim=1) == batch.y_label
    if answer.count is None:
        return {"label": label}
    count = answer.count.argmax(dim=1) + 1 == batch.y_count
    return {"label": label, "count": count, "both": label & count}


def accuracies(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Shares of right targets, and under ``graph`` of graphs in which every target is right in everything."""
    hits = right(answer, batch)
    everything = list(hits.values())[-1]
    shares = {name: hit.double().mean() for name, hit in hits.items()}
    return {**shares, "graph": everything.view(batch.num_graphs, -1).all(dim=1).double().mean()}


def mean_scores(pairs: Iterable[tuple[Answer, TwoRadiusBatch]]) -> dict[str, float]:
    """Losses and accuracies averaged over minibatches, each weighed by its number of graphs."""
    total: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64))
    num_graphs = 0
    for answer, batch in pairs:
        num_graphs += batch.num_graphs
        for name, score in {**accuracies(answer, batch), **losses(answer, batch)}.items():
            total[name] += batch.num_graphs * score.double()
    return {name: float(score / num_graphs) for name, score in total.items()}
