"""Precisions taken, refused and lost; the largest input; the growth of the counted operations."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv
from torch_geometric.nn.attention import SGFormerAttention

from audit.specimens import (
    AllPairs,
    Broadcast,
    Cancelling,
    NaiveSoftmax,
    OnlyFloat32,
    PaddedMean,
    SmallSetsOnly,
    SumReadout,
)
from mooring.audit import adapt, measure


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
