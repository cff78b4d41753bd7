"""Operations are counted, and their growth is told."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GPSConv

from audit.specimens import AllPairs, Broadcast, PaddedMean, SumReadout
from mooring.audit import adapt, measure
from mooring.audit.measurements.counting import OperationCounter


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


def test_matrix_products_count_their_arithmetic() -> None:
    left, right = torch.randn(3, 5), torch.randn(5, 7)
    with OperationCounter() as counter:
        left @ right
    assert counter.operations == 2 * 3 * 5 * 7


def test_fused_attention_counts_its_pairs() -> None:
    query, key, value = torch.randn(1, 2, 11, 8), torch.randn(1, 2, 13, 8), torch.randn(1, 2, 13, 8)
    with OperationCounter() as counter:
        nn.functional.scaled_dot_product_attention(query, key, value)
    assert counter.operations >= 2 * 2 * 11 * 13 * 8 * 2


def test_views_are_free_and_other_operations_count_elements() -> None:
    x = torch.randn(3, 5)
    with OperationCounter() as counter:
        x.t().reshape(5, 3)
    assert counter.operations == 0
    with OperationCounter() as counter:
        x.exp()
    assert counter.operations == 15
