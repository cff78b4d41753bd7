"""Metrics of Two-Radius: losses, accuracies, and diagnostics of the global state and of counts."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mooring.suite.two_radius.data import TwoRadiusBatch
from mooring.suite.two_radius.model import Answer


def losses(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Return cross-entropies of the labels and, if present, of the counts (class ``c - 1`` is count ``c``)."""
    parts = {"label_loss": cross_entropy(answer.label, batch.y_label)}
    if answer.count is not None:
        parts["count_loss"] = cross_entropy(answer.count, batch.y_count - 1)
    return parts


def right(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Bool[Tensor, " targets"]]:
    """Return masks of targets right in label, in count and in both; in label alone if there are no counts."""
    label = _predicted(answer.label) == batch.y_label
    if answer.count is None:
        return {"label": label}
    count = _predicted(answer.count) + 1 == batch.y_count
    return {"label": label, "count": count, "both": label & count}


def _predicted(logits: Float[Tensor, "targets classes"]) -> Int[Tensor, " targets"]:
    """Return the argmax over classes, or -2 (never a valid label or count) if any logit is NaN."""
    return logits.argmax(dim=1).masked_fill(logits.isnan().any(dim=1), -2)


def accuracies(answer: Answer, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Return shares of right targets; ``graph`` is the share of graphs in which every target is right."""
    hits = right(answer, batch)
    everything = list(hits.values())[-1]
    shares = {name: hit.double().mean() for name, hit in hits.items()}
    return {**shares, "graph": everything.view(batch.num_graphs, -1).all(dim=1).double().mean()}


def mean_scores(pairs: Iterable[tuple[Answer, TwoRadiusBatch]]) -> dict[str, float]:
    """Average losses and accuracies over minibatches, weighted by their number of graphs."""
    total: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64))
    num_graphs = 0
    for answer, batch in pairs:
        num_graphs += batch.num_graphs
        for name, score in {**accuracies(answer, batch), **losses(answer, batch)}.items():
            total[name] += batch.num_graphs * score.double()
    return {name: float(score / num_graphs) for name, score in total.items()}


def diagnose(net: nn.Module, paired: TwoRadiusBatch, pairs: list[tuple[Answer, TwoRadiusBatch]]) -> dict[str, Any]:
    """Return the diagnostics of ``app:protocol`` as numbers for a record.

    Args:
        net: a :class:`~mooring.suite.two_radius.TwoRadiusNet` that counts.
        paired: one assignment rendered in full at every scale; the other graphs are compared with the first.
        pairs: answers and their minibatches, for the accuracies.

    Returns:
        ``state_distance`` (None without a global state), ``write_weights`` by source identifier and ``read_weights`` by
        target identifier in the first graph, ``anchor_weights`` by scale (each None if the module has none),
        ``count_accuracy_by_scale``, ``count_confusion`` (row: true count, number of targets), ``graph_recovery``.
    """
    memory = net(paired, return_state=True).memory
    return {
        "state_distance": state_distance(getattr(memory, "slots", None), paired),
        "write_weights": by_identifier(getattr(memory, "write_weights", None), paired, paired.sources),
        "anchor_weights": by_scale(getattr(memory, "anchor_weight", None), paired),
        "read_weights": by_identifier(getattr(memory, "read_weights", None), paired, paired.targets),
        **count_accuracy(pairs),
    }


def state_distance(content: Float[Tensor, "graphs ..."] | None, paired: TwoRadiusBatch) -> dict[str, Any] | None:
    """Return the largest and mean absolute difference of each graph's global state from the first graph's."""
    if content is None:
        return None
    difference = (content - content[:1]).abs().flatten(1)
    return {
        "scales": paired.scale.tolist(),
        "max": difference.amax(dim=1).tolist(),
        "mean": difference.mean(dim=1).tolist(),
    }


def by_identifier(
    weights: Float[Tensor, "nodes slots heads"] | None, paired: TwoRadiusBatch, mask: Tensor
) -> list[list[float]] | None:
    """Return weights of the masked nodes of the first graph: mean over heads, sum over copies of an identifier."""
    if weights is None:
        return None
    chosen = mask & (paired.batch == 0)
    identifier = paired.identifier[chosen]
    table = weights.new_zeros(int(identifier.max()) + 1, weights.size(1))
    return table.index_add(0, identifier, weights[chosen].mean(dim=2)).tolist()


def by_scale(
    weights: Float[Tensor, "graphs slots heads"] | None, paired: TwoRadiusBatch
) -> dict[str, list[float]] | None:
    """Return anchor weights, averaged over heads, keyed by the scale of their graph."""
    if weights is None:
        return None
    return {str(int(scale)): row.mean(dim=1).tolist() for scale, row in zip(paired.scale, weights, strict=True)}


def count_accuracy(pairs: list[tuple[Answer, TwoRadiusBatch]]) -> dict[str, Any]:
    """Return count accuracy per scale, confusion of counts, and the share of graphs recovered exactly."""
    hit = torch.cat([right(answer, batch)["count"].view(batch.num_graphs, -1) for answer, batch in pairs])
    scale = torch.cat([batch.scale for _, batch in pairs])
    true = torch.cat([batch.y_count for _, batch in pairs]) - 1
    logits = torch.cat([answer.count for answer, _ in pairs if answer.count is not None])
    num_counts = logits.size(1)
    confusion = torch.bincount(true * num_counts + logits.argmax(dim=1), minlength=num_counts**2)
    graph = torch.stack([accuracies(answer, batch)["graph"] for answer, batch in pairs])
    return {
        "count_accuracy_by_scale": {str(int(s)): float(hit[scale == s].double().mean()) for s in scale.unique()},
        "count_confusion": confusion.view(num_counts, num_counts).tolist(),
        "graph_recovery": float(graph.mean()),
    }
