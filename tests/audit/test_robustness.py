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
from mooring.audit import Finding, adapt, measure


class NeedsNodes(SumReadout):
    """Raises if a graph is without nodes."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if batch.unique().numel() < num_graphs:
            raise IndexError("graph without nodes\nmore")
        return super().forward(x, batch, num_graphs)


class SharesByGraphs(SumReadout):
    """Divides by the number of graphs."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return super().forward(x, batch, num_graphs) / num_graphs


def find(measurement: str, module: nn.Module, trials: int = 8) -> Finding:
    return measure(measurement, adapt(module, channels=7), 0, trials)


@pytest.mark.parametrize(
    ("measurement", "module", "verdict"),
    [
        ("permutation", SumReadout(), "invariant"),
        ("permutation", Broadcast(7), "equivariant"),
        ("permutation", NeighbourInBatch(), "equivariant"),
        ("unsorted_index", SumReadout(), "handled"),
        ("unsorted_index", RefusesUnsorted(), "refused: sort the batch first"),
        ("batch_mates", Broadcast(7, "sum"), "independent"),
        ("padding", Broadcast(7, "sum"), "independent"),
        ("batch_mates", PaddedMean(), "independent"),
        ("empty_set", SumReadout(), "finite"),
        ("empty_set", Broadcast(7), "finite"),
    ],
)
def test_kept_invariants(measurement: str, module: nn.Module, verdict: str) -> None:
    finding = find(measurement, module)
    assert (finding.verdict, finding.broken, finding.trials) == (verdict, False, 8)


@pytest.mark.parametrize(
    ("measurement", "module", "verdict", "least"),
    [
        ("permutation", Positional(), "not equivariant: the node order changes the result", 0.1),
        ("unsorted_index", NeighbourInBatch(), "silently wrong", 0),
        ("unsorted_index", PaddedMean(), "silently wrong", 0),
        ("batch_mates", WholeBatchMean(), "depends on the graphs beside it", 0.01),
        ("padding", PaddedMean(), "depends on the sizes beside it", 0),
        ("empty_set", NaiveMean(), "NaN or inf in the output", 0),
        ("empty_set", HiddenNaN(), "NaN or inf in the gradient", 0),
        ("empty_set", NeedsNodes(), "raises: graph without nodes", 0),
        ("empty_set", SharesByGraphs(), "changes the other graphs", 0),
    ],
)
def test_broken_invariants(measurement: str, module: nn.Module, verdict: str, least: float) -> None:
    finding = find(measurement, module)
    assert finding.broken
    assert verdict in finding.verdict.split("; ")
    assert finding.value is not None
    assert finding.value >= least
    assert "nodes" in finding.worst_case


class FirstSixteen(nn.Module):
    def forward(self, x: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        return to_dense_batch(x, index, batch_size=dim_size, max_num_nodes=16)[0].sum(dim=1)


def test_what_is_cut_off_at_sixteen_nodes_is_noticed() -> None:
    adapter = adapt(FirstSixteen(), kind="aggregation", channels=5)
    assert measure("permutation", adapter, 0, 12).broken
    # As many are cut off whoever stands beside it.
    assert not measure("batch_mates", adapter, 0, 12).broken


def test_one_exchange_across_a_border_is_among_the_trials() -> None:
    # A full shuffle makes GPSConv raise for a wrong shape; only a slight disorder passes and is answered wrongly.
    finding = find("unsorted_index", GPSConv(7, conv=None), 12)
    assert finding.verdict == "silently wrong"
    assert finding.details["refusal"]


def test_errors_grow_as_digits_fall() -> None:
    errors = find("dtypes", SumReadout(), 2).details
    assert errors["float64"] == 0.0
    assert 0.0 < errors["float32"] < 1e-6 < errors["float16"] < errors["bfloat16"] < 1e-1


def test_lost_digits_are_broken() -> None:
    finding = find("dtypes", Cancelling(), 2)
    assert finding.broken
    assert finding.details["float32"] > 1e-3


def test_refusing_is_not_broken() -> None:
    finding = find("dtypes", OnlyFloat32(), 2)
    assert not finding.broken
    assert finding.details["bfloat16"] == "refused: float32 expected, got torch.bfloat16"


def test_nan_in_a_low_precision_is_broken() -> None:
    class HalfNaN(SumReadout):
        def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
            out = super().forward(x, batch, num_graphs)
            return out * float("nan") if x.dtype == torch.float16 else out

    finding = find("dtypes", HalfNaN(), 2)
    assert finding.broken
    assert "float16 NaN" in finding.verdict


def test_a_module_that_makes_float32_tensors_refuses_float64_as_users_have_it() -> None:
    finding = measure("dtypes", adapt(SGFormerAttention(5, head_channels=5), channels=5), 0, 1)
    assert str(finding.details["float64"]).startswith("refused")
    assert finding.details["float32"] < 1e-5


def test_sum_is_finite_as_far_as_tried() -> None:
    finding = find("numeric_range", SumReadout(), 3)
    assert not finding.broken
    assert finding.details == {"largest_exponent": 36, "largest_nodes": 10_000, "tried_nodes": 10_000}


def test_an_unshifted_softmax_overflows() -> None:
    finding = find("numeric_range", NaiveSoftmax(), 3)
    assert finding.broken
    assert finding.details["largest_exponent"] == 0


def test_nodes_are_tried_too() -> None:
    finding = find("numeric_range", SmallSetsOnly(), 3)
    assert finding.broken
    assert finding.details["largest_nodes"] == 100


def test_all_pairs_are_not_tried_on_ten_thousand_nodes() -> None:
    finding = find("numeric_range", AllPairs(), 1)
    assert finding.details["tried_nodes"] == 1_000


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7)])
def test_linear(module: nn.Module) -> None:
    finding = find("cost_growth", module, 1)
    assert finding.value == pytest.approx(1.0, abs=0.02)
    assert finding.verdict == "linear in n"


@pytest.mark.parametrize("module", [AllPairs(), GPSConv(7, conv=None)])
def test_quadratic(module: nn.Module) -> None:
    finding = find("cost_growth", module, 1)
    assert finding.value is not None
    assert finding.value > 1.9


def test_padding_shows_in_a_skewed_batch() -> None:
    overhead = {
        type(module): find("cost_growth", module, 1).details["skewed_batch_overhead"]
        for module in (PaddedMean(), SumReadout())
    }
    assert overhead[PaddedMean] > 5
    assert overhead[SumReadout] < 1.5
