"""Graphs without nodes."""

import pytest
import torch
from torch import Tensor

from audit.specimens import Broadcast, HiddenNaN, NaiveMean, SumReadout
from mooring.audit import adapt, measure


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7)])
def test_finite(module: torch.nn.Module) -> None:
    finding = measure("empty_set", adapt(module, channels=7), 0, 6)
    assert finding.verdict == "finite"
    assert not finding.broken


@pytest.mark.parametrize(
    ("module", "problem"), [(NaiveMean(), "NaN or inf in the output"), (HiddenNaN(), "NaN or inf in the gradient")]
)
def test_nan(module: torch.nn.Module, problem: str) -> None:
    finding = measure("empty_set", adapt(module, channels=7), 0, 6)
    assert finding.broken
    assert problem in finding.details["problems"]


def test_raises() -> None:
    class NeedsNodes(SumReadout):
        def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
            if batch.unique().numel() < num_graphs:
                raise IndexError("graph without nodes\nmore")
            return super().forward(x, batch, num_graphs)

    finding = measure("empty_set", adapt(NeedsNodes(), channels=7), 0, 6)
    assert finding.verdict == "raises: graph without nodes"
    assert finding.broken


def test_the_other_graphs_are_watched() -> None:
    class SharesByGraphs(SumReadout):
        def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
            return super().forward(x, batch, num_graphs) / num_graphs

    finding = measure("empty_set", adapt(SharesByGraphs(), channels=7), 0, 6)
    assert finding.verdict == "changes the other graphs"
