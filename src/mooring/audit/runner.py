"""Runner of all measurements on one module; a measurement maps (adapter, seed, trials) to a finding."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from mooring.audit.adapters import Adapter, adapt
from mooring.audit.addressing import addressability, separability
from mooring.audit.card import Card, Finding, first_line
from mooring.audit.counting import replication
from mooring.audit.invariance import batch_mates, empty_set, padding, permutation, unsorted_index
from mooring.audit.limits import cost_growth, dtypes, numeric_range
from mooring.ops.checks import check_count

Measurement = Callable[[Adapter, int, int], Finding]

MEASUREMENTS: dict[str, Measurement] = {
    "replication": replication,
    "addressability": addressability,
    "separability": separability,
    "permutation": permutation,
    "unsorted_index": unsorted_index,
    "batch_mates": batch_mates,
    "padding": padding,
    "empty_set": empty_set,
    "numeric_range": numeric_range,
    "dtypes": dtypes,
    "cost_growth": cost_growth,
}

# Words in the names of parameters that are added, not multiplied; GIN's epsilon is added to a gain of one.
ADDED = ("bias", "logit", "state", "eps")


def audit(
    module: Callable[..., Any],
    kind: str | None = None,
    *,
    channels: int = 16,
    seed: int = 0,
    trials: int = 12,
    name: str | None = None,
) -> Card:
    """Measure a module: whether it counts, can be addressed, and is invariant.

    The module is not changed: a copy is measured in float64 and in eval mode, so dropout is off and a batch norm uses
    its running statistics. If the module raises in a measurement, the exception is recorded and the others run.

    Args:
        module: an aggregation ``(x, index, dim_size=)``, a virtual node ``(x, batch)``, a layer
            ``(x, edge_index, batch)`` or a dense attention ``(x, mask)``; a function is allowed.
        kind: ``"aggregation"``, ``"virtual_node"``, ``"layer"`` or ``"dense"``; by default inferred from the arguments.
        channels: width of the node features.
        seed: seed of the random inputs.
        trials: random instances per measurement; costly measurements use fewer and record the number.
        name: name on the card.

    >>> from torch_geometric.nn import MeanAggregation
    >>> card = audit(MeanAggregation(), channels=3, trials=2)
    >>> card["replication"].verdict
    'blind: f(rX) = f(X)'
    """
    check_count("audit", "trials", trials)
    with warnings.catch_warnings(), trainable():
        # Deprecation warnings of a third-party module must not fail the audit, whatever filters are set.
        warnings.simplefilter("ignore")
        adapter = adapt(module, kind, channels)
        notes = randomise_zero_weights(adapter)
        if adapter.dtype != torch.float64:
            notes.append("measured in float32: the module refuses float64")
        findings = tuple(measure(measurement, adapter, seed, trials) for measurement in MEASUREMENTS)
    return Card(name or adapter.name, adapter.kind, channels, findings, seed, tuple(notes))


@contextmanager
def trainable() -> Iterator[None]:
    """Enable gradients even under no_grad or inference_mode; addressability is measured through them."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def measure(name: str, adapter: Adapter, seed: int, trials: int) -> Finding:
    """Run one measurement; if the module raises, the exception becomes the verdict of a broken finding."""
    measurement = MEASUREMENTS[name]
    try:
        with trainable():
            return measurement(adapter, seed, trials)
    except Exception as error:  # a third-party module may raise anything
        explanation = f"the measurement was ended by {type(error).__name__}"
        return Finding(name, f"raises: {first_line(error)}", None, "none", trials, explanation, broken=True)


def randomise_zero_weights(adapter: Adapter) -> list[str]:
    """Replace weights and gains that are all zero by small random values, in the measured copy.

    A module initialised to the identity has zero weights in its last layer, or a zero gain after it. Nothing passes
    through it yet, so every property of the global path would be measured as absent. Added parameters, such as a bias
    or an anchor's logit, are unchanged.
    """
    if not isinstance(adapter.module, nn.Module):
        return []
    generator = torch.Generator().manual_seed(0)
    changed = []
    with torch.no_grad():
        for name, weight in adapter.module.named_parameters():
            added = any(word in name.rpartition(".")[2] for word in ADDED)
            if not added and weight.numel() and not bool(weight.any()):
                noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                # A weight is summed over its last axis, a gain is not.
                weight.copy_(noise if weight.dim() < 2 else noise / weight.size(-1) ** 0.5)
                changed.append(name)
    return [f"zero weights given random values: {', '.join(changed)}"] if changed else []
