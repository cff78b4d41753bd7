"""Mixed differences vanish for an additive broadcast only."""

import pytest
import torch

from audit.specimens import Broadcast, GatedBroadcast, NodewiseOnly, Slots, SumReadout
from mooring.audit import adapt, measure


def test_additive_broadcast_is_separable() -> None:
    finding = measure("separability", adapt(Broadcast(7), channels=7), 0, 5)
    assert finding.details["separable"]


@pytest.mark.parametrize("module", [GatedBroadcast(7), Slots(7, 3)])
def test_gates_and_slots_are_not(module: torch.nn.Module) -> None:
    finding = measure("separability", adapt(module, channels=7), 0, 5)
    assert not finding.details["separable"]
    assert finding.value is not None
    assert finding.value > 1e-3


@pytest.mark.parametrize(
    ("module", "verdict"), [(NodewiseOnly(), "nothing travels between nodes"), (SumReadout(), "a readout")]
)
def test_nothing_to_separate(module: torch.nn.Module, verdict: str) -> None:
    finding = measure("separability", adapt(module, channels=7), 0, 3)
    assert finding.value is None
    assert finding.verdict.startswith(verdict)
