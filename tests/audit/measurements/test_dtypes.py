"""Precisions taken, refused, and lost."""

import torch
from torch import Tensor
from torch_geometric.nn.attention import SGFormerAttention

from audit.specimens import Cancelling, OnlyFloat32, SumReadout
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
