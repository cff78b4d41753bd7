"""Node order within graphs, and batches out of order."""

import pytest
import torch
from torch_geometric.nn import GPSConv

from audit.specimens import Broadcast, NeighbourInBatch, PaddedMean, Positional, RefusesUnsorted, SumReadout
from mooring.audit import adapt, measure


@pytest.mark.parametrize(
    ("module", "verdict"),
    [(SumReadout(), "invariant"), (Broadcast(7), "equivariant"), (NeighbourInBatch(), "equivariant")],
)
def test_permutation_holds(module: torch.nn.Module, verdict: str) -> None:
    finding = measure("permutation", adapt(module, channels=7), 0, 5)
    assert not finding.broken
    assert finding.verdict == verdict
    assert finding.trials == 5


def test_permutation_is_broken_by_positions() -> None:
    finding = measure("permutation", adapt(Positional(), channels=7), 0, 5)
    assert finding.broken
    assert finding.value is not None
    assert finding.value > 0.1
    assert "nodes" in finding.worst_case


def test_unsorted_is_handled() -> None:
    finding = measure("unsorted_index", adapt(SumReadout(), channels=7), 0, 8)
    assert finding.verdict == "handled"
    assert not finding.broken


def test_unsorted_refused_is_not_broken() -> None:
    finding = measure("unsorted_index", adapt(RefusesUnsorted(), channels=7), 0, 8)
    assert finding.verdict == "refused: sort the batch first"
    assert not finding.broken


@pytest.mark.parametrize("module", [NeighbourInBatch(), PaddedMean()])
def test_unsorted_answered_wrongly_is_broken(module: torch.nn.Module) -> None:
    finding = measure("unsorted_index", adapt(module, channels=7), 0, 8)
    assert finding.verdict == "silently wrong"
    assert finding.broken


def test_one_exchange_across_a_border_is_among_the_trials() -> None:
    # A full shuffle makes GPSConv raise for a wrong shape; only a slight disorder passes and is answered wrongly.
    finding = measure("unsorted_index", adapt(GPSConv(7, conv=None), channels=7), 0, 12)
    assert finding.verdict == "silently wrong"
    assert finding.details["refusal"]
