"""Assertions for tests of other projects, each for one property of one module.

>>> from torch_geometric.nn import SumAggregation
>>> assert_counts(SumAggregation(), channels=5)
>>> assert_batch_independent(SumAggregation(), channels=5)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypedDict

from typing_extensions import Unpack

from mooring.audit.adapters import adapt
from mooring.audit.card import Finding
from mooring.audit.limits import LINEAR
from mooring.audit.runner import measure, randomise_zero_weights, trainable

__all__ = [
    "assert_addressable",
    "assert_batch_independent",
    "assert_counts",
    "assert_handles_empty",
    "assert_handles_unsorted",
    "assert_linear_cost",
    "assert_not_separable",
    "assert_permutation_equivariant",
    "assert_replication_blind",
]

Module = Callable[..., Any]


class Options(TypedDict, total=False):
    """Calling convention and settings of a measurement, as in :func:`mooring.audit.audit`."""

    kind: str | None
    channels: int
    seed: int
    trials: int


def assert_permutation_equivariant(module: Module, **options: Unpack[Options]) -> None:
    """Assert that node outputs follow the node order, or that graph outputs are independent of it."""
    finding = _find("permutation", module, **options)
    _require(not finding.broken, module, finding)


def assert_handles_unsorted(module: Module, **options: Unpack[Options]) -> None:
    """Assert that an unsorted batch vector gives the right result; raising is not enough."""
    finding = _find("unsorted_index", module, **options)
    _require(finding.verdict == "handled", module, finding)


def assert_batch_independent(module: Module, **options: Unpack[Options]) -> None:
    """Assert that a graph's output depends neither on the graphs batched with it nor on their sizes.

    Measured in eval mode; in training a batch norm depends on both.
    """
    for name in ("batch_mates", "padding"):
        finding = _find(name, module, **options)
        _require(not finding.broken, module, finding)


def assert_counts(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the number of nodes can be recovered from the output."""
    finding = _find("replication", module, **options)
    _require(bool(finding.details.get("counts")), module, finding)


def assert_replication_blind(module: Module, **options: Unpack[Options]) -> None:
    """Assert that f(rX) = f(X)."""
    finding = _find("replication", module, **options)
    _require(finding.verdict.startswith("blind"), module, finding)


def assert_addressable(module: Module, rank: int = 2, **options: Unpack[Options]) -> None:
    """Assert that different nodes can receive at least ``rank`` independent messages."""
    finding = _find("addressability", module, **options)
    _require(finding.value is not None and finding.value >= rank, module, finding, f"expected at least {rank}; ")


def assert_not_separable(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the update of a node depends on the node."""
    finding = _find("separability", module, **options)
    _require(finding.details.get("separable") is False, module, finding)


def assert_handles_empty(module: Module, **options: Unpack[Options]) -> None:
    """Assert that a graph without nodes gives finite values and gradients and does not change other graphs."""
    finding = _find("empty_set", module, **options)
    _require(not finding.broken, module, finding)


def assert_linear_cost(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the counted operations grow linearly with the number of nodes."""
    finding = _find("cost_growth", module, **options)
    _require(finding.value is not None and finding.value < LINEAR, module, finding)


def _find(
    measurement: str, module: Module, kind: str | None = None, channels: int = 16, seed: int = 0, trials: int = 12
) -> Finding:
    with warnings.catch_warnings(), trainable():
        warnings.simplefilter("ignore")
        adapter = adapt(module, kind, channels)
        randomise_zero_weights(adapter)
        return measure(measurement, adapter, seed, trials)


def _require(holds: bool, module: Module, finding: Finding, expected: str = "") -> None:
    name = getattr(module, "__name__", type(module).__name__)
    if not holds:
        raise AssertionError(
            f"{name}: {finding.name.replace('_', ' ')}: {finding.verdict}; {expected}worst case: {finding.worst_case} "
            f"({finding.explanation})"
        )
