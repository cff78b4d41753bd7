"""The growth of the counted operations is told."""

import pytest
from torch import nn
from torch_geometric.nn import GPSConv

from audit.specimens import AllPairs, Broadcast, PaddedMean, SumReadout
from mooring.audit import adapt, measure


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7)])
def test_linear(module: nn.Module) -> None:
    finding = measure("cost_growth", adapt(module, channels=7), 0, 1)
    assert finding.value == pytest.approx(1.0, abs=0.02)
    assert finding.verdict == "linear in n"


@pytest.mark.parametrize("module", [AllPairs(), GPSConv(7, conv=None)])
def test_quadratic(module: nn.Module) -> None:
    finding = measure("cost_growth", adapt(module, channels=7), 0, 1)
    assert finding.value is not None
    assert finding.value > 1.9


def test_padding_shows_in_a_skewed_batch() -> None:
    overhead = {
        type(module): measure("cost_growth", adapt(module, channels=7), 0, 1).details["skewed_batch_overhead"]
        for module in (PaddedMean(), SumReadout())
    }
    assert overhead[PaddedMean] > 5
    assert overhead[SumReadout] < 1.5
