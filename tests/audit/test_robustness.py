"""Node order, batch mates, padding, graphs without nodes, precisions, the largest input, and cost."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv
from torch_geometric.nn.attention import SGFormerAttention
from torch_geometric.utils import to_dense_batch

from audit.specimens import (
    AllPairs,
    Broadcast,
    Cancelling,
    HiddenNaN,
    NaiveMean,
    NaiveSoftmax,
    NeighbourInBatch,
    OnlyFloat32,
    PaddedMean,
    Positional,
    RefusesUnsorted,
    SmallSetsOnly,
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


def test_errors_grow_as_digits_fall() -> None:
    errors = measure("dtypes", adapt(SumReadout(), channels=7), 0, 2).details
    assert errors["float64"] == 0.0
    assert 0.0 < errors["float32"] < 1e-6 < errors["float16"] < errors["bfloat16"] < 1e-1


def test_lost_digits_are_broken() -> None:
    finding = measure("dtypes", adapt(Cancelling(), channels=7), 0, 2)
    assert finding.broken
    assert finding.details["float32"] > 1e-3


def test_refusing_is_not_broken() -> None:
    finding = measure("dtypes", adapt(OnlyFloat32(), channels=7), 0, 2)
    assert not finding.broken
    assert finding.details["bfloat16"] == "refused: float32 expected, got torch.bfloat16"


def test_nan_in_a_low_precision_is_broken() -> None:
    class HalfNaN(SumReadout):
        def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
            out = super().forward(x, batch, num_graphs)
            return out * float("nan") if x.dtype == torch.float16 else out

    finding = measure("dtypes", adapt(HalfNaN(), channels=7), 0, 2)
    assert finding.broken
    assert "float16 NaN" in finding.verdict


def test_a_module_that_makes_float32_tensors_refuses_float64_as_users_have_it() -> None:
    finding = measure("dtypes", adapt(SGFormerAttention(5, head_channels=5), channels=5), 0, 1)
    assert str(finding.details["float64"]).startswith("refused")
    assert finding.details["float32"] < 1e-5


def test_sum_is_finite_as_far_as_tried() -> None:
    finding = measure("numeric_range", adapt(SumReadout(), channels=7), 0, 3)
    assert not finding.broken
    assert finding.details == {"largest_exponent": 36, "largest_nodes": 10_000, "tried_nodes": 10_000}


def test_an_unshifted_softmax_overflows() -> None:
    finding = measure("numeric_range", adapt(NaiveSoftmax(), channels=7), 0, 3)
    assert finding.broken
    assert finding.details["largest_exponent"] == 0


def test_nodes_are_tried_too() -> None:
    finding = measure("numeric_range", adapt(SmallSetsOnly(), channels=7), 0, 3)
    assert finding.broken
    assert finding.details["largest_nodes"] == 100


def test_all_pairs_are_not_tried_on_ten_thousand_nodes() -> None:
    finding = measure("numeric_range", adapt(AllPairs(), channels=7), 0, 1)
    assert finding.details["tried_nodes"] == 1_000


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
