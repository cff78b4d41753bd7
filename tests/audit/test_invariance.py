"""Node order, batches out of order, batch mates, padding, and graphs without nodes."""

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GPSConv
from torch_geometric.utils import to_dense_batch

from audit.specimens import (
    Broadcast,
    HiddenNaN,
    NaiveMean,
    NeighbourInBatch,
    PaddedMean,
    Positional,
    RefusesUnsorted,
    SumReadout,
    WholeBatchMean,
)
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


class FirstSixteen(torch.nn.Module):
    def forward(self, x: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        return to_dense_batch(x, index, batch_size=dim_size, max_num_nodes=16)[0].sum(dim=1)


def test_what_is_cut_off_at_sixteen_nodes_is_noticed() -> None:
    adapter = adapt(FirstSixteen(), kind="aggregation", channels=5)
    assert measure("permutation", adapter, 0, 12).broken
    # As many are cut off whoever stands beside it.
    assert not measure("batch_mates", adapter, 0, 12).broken


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


def test_independent() -> None:
    adapter = adapt(Broadcast(7, "sum"), channels=7)
    for name in ("batch_mates", "padding"):
        finding = measure(name, adapter, 0, 8)
        assert finding.verdict == "independent"
        assert not finding.broken


def test_a_mean_over_the_batch_leaks() -> None:
    finding = measure("batch_mates", adapt(WholeBatchMean(), channels=7), 0, 4)
    assert finding.broken
    assert finding.value is not None
    assert finding.value > 1e-2


def test_padding_is_told_apart_from_mates() -> None:
    adapter = adapt(PaddedMean(), channels=7)
    assert not measure("batch_mates", adapter, 0, 8).broken
    assert measure("padding", adapter, 0, 8).broken


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
