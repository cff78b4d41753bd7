"""Blind, counting, and seeing copies without counting."""

import pytest
import torch

from audit.specimens import Broadcast, NaiveMean, Parity, Slots, SumReadout
from mooring.audit import adapt, measure


@pytest.mark.parametrize("module", [NaiveMean(), Broadcast(7), Slots(7, 3)])
def test_blind(module: torch.nn.Module) -> None:
    finding = measure("replication", adapt(module, channels=7), 0, 6)
    assert finding.verdict.startswith("blind")
    assert finding.value is not None
    assert finding.value < 1e-12


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7, "sum")])
def test_counts(module: torch.nn.Module) -> None:
    finding = measure("replication", adapt(module, channels=7), 0, 6)
    assert finding.details["counts"]
    assert finding.details["r2"] > 0.999
    assert finding.trials > 300


def test_seeing_copies_is_not_counting() -> None:
    finding = measure("replication", adapt(Parity(), channels=7), 0, 6)
    assert not finding.details["counts"]
    assert finding.verdict == "sees copies, but n is not recovered"
