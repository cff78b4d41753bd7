"""Assertions for tests of other projects, each for one property of one module.

>>> from torch_geometric.nn import SumAggregation
>>> assert_counts(SumAggregation(), channels=5)
>>> assert_batch_independent(SumAggregation(), channels=5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from typing_extensions import Unpack

from mooring.audit.card import Finding
from mooring.audit.robustness import LINEAR
from mooring.audit.runner import measure, prepared

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
    _require("permutation", _unbroken, module, **options)


def assert_handles_unsorted(module: Module, **options: Unpack[Options]) -> None:
    """Assert that an unsorted batch vector gives the right result; raising is not enough."""
    _require("unsorted_index", lambda finding: finding.verdict == "handled", module, **options)


def assert_batch_independent(module: Module, **options: Unpack[Options]) -> None:
    """Assert that a graph's output depends neither on the graphs batched with it nor on their sizes.

    Measured in eval mode; in training a batch norm depends on both.
    """
    for name in ("batch_mates", "padding"):
        _require(name, _unbroken, module, **options)


def assert_counts(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the number of nodes can be recovered from the output."""
    _require("replication", lambda finding: bool(finding.details.get("counts")), module, **options)


def assert_replication_blind(module: Module, **options: Unpack[Options]) -> None:
    """Assert that f(rX) = f(X)."""
    _require("replication", lambda finding: finding.verdict.startswith("blind"), module, **options)


def assert_addressable(module: Module, rank: int = 2, **options: Unpack[Options]) -> None:
    """Assert that different nodes can receive at least ``rank`` independent messages."""

    def reaches_rank(finding: Finding) -> bool:
        return finding.value is not None and finding.value >= rank

    _require("addressability", reaches_rank, module, f"expected at least {rank}; ", **options)


def assert_not_separable(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the update of a node depends on the node."""
    _require("separability", lambda finding: finding.details.get("separable") is False, module, **options)


def assert_handles_empty(module: Module, **options: Unpack[Options]) -> None:
    """Assert that a graph without nodes gives finite values and gradients and does not change other graphs."""
    _require("empty_set", _unbroken, module, **options)


def assert_linear_cost(module: Module, **options: Unpack[Options]) -> None:
    """Assert that the counted operations grow linearly with the number of nodes."""
    _require("cost_growth", lambda finding: finding.value is not None and finding.value < LINEAR, module, **options)


def _unbroken(finding: Finding) -> bool:
    return not finding.broken


def _require(
    measurement: str,
    holds: Callable[[Finding], bool],
    module: Module,
    expected: str = "",
    *,
    kind: str | None = None,
    channels: int = 16,
    seed: int = 0,
    trials: int = 12,
) -> None:
    with prepared(module, kind, channels) as (adapter, _):
        finding = measure(measurement, adapter, seed, trials)
    if not holds(finding):
        name = getattr(module, "__name__", type(module).__name__)
        raise AssertionError(
            f"{name}: {finding.title}: {finding.verdict}; {expected}worst case: {finding.worst_case} "
            f"({finding.explanation})"
        )
