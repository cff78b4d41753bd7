"""Each assertion passes on a module built to pass and fails on one built to fail."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from audit import specimens
from mooring.audit import audit, testing
from mooring.nn import SlotVirtualNode

CASES: list[tuple[Callable[..., None], nn.Module, nn.Module, str]] = [
    (testing.assert_permutation_equivariant, specimens.Broadcast(5), specimens.Positional(), "permutation"),
    (testing.assert_handles_unsorted, specimens.SumReadout(), specimens.RefusesUnsorted(), "sort the batch first"),
    (testing.assert_batch_independent, specimens.SumReadout(), specimens.WholeBatchMean(), "batch mates"),
    (testing.assert_batch_independent, specimens.SumReadout(), specimens.PaddedMean(), "padding"),
    (testing.assert_counts, specimens.SumReadout(), specimens.Broadcast(5), "blind"),
    (testing.assert_replication_blind, specimens.Broadcast(5), specimens.SumReadout(), "counts"),
    (testing.assert_addressable, specimens.Slots(5, 3), specimens.Broadcast(5), "expected at least 2"),
    (testing.assert_not_separable, specimens.GatedBroadcast(5), specimens.Broadcast(5), "separable"),
    (testing.assert_handles_empty, specimens.SumReadout(), specimens.NaiveMean(), "NaN"),
    (testing.assert_linear_cost, specimens.SumReadout(), specimens.AllPairs(), "quadratic"),
]


@pytest.mark.parametrize(("check", "passes", "fails", "message"), CASES)
def test_assertions(check: Callable[..., Any], passes: nn.Module, fails: nn.Module, message: str) -> None:
    check(passes, channels=5, trials=8)
    with pytest.raises(AssertionError, match=f"{type(fails).__name__}: .*{message}"):
        check(fails, channels=5, trials=8)


def test_every_assertion_is_tested() -> None:
    assert {check.__name__ for check, *_ in CASES} == set(testing.__all__)


def test_rank_is_a_demand() -> None:
    testing.assert_addressable(specimens.Slots(5, 3), rank=3, channels=5)
    with pytest.raises(AssertionError, match="3 independent messages; expected at least 4"):
        testing.assert_addressable(specimens.Slots(5, 3), rank=4, channels=5)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_where_gradients_are_off_the_same_is_measured(mode: Any) -> None:
    module = SlotVirtualNode(16, 4)
    card = audit(module, trials=2)
    with mode():
        assert audit(module, trials=2)["addressability"].verdict == card["addressability"].verdict
        testing.assert_addressable(module)


def test_a_compiled_module_is_measured_as_what_it_was_compiled_from() -> None:
    module = SlotVirtualNode(16, 4)
    compiled = audit(torch.compile(module), trials=2)
    assert [finding.verdict for finding in compiled.findings] == [
        finding.verdict for finding in audit(module, trials=2).findings
    ]


class Attention(nn.Module):
    """A dense module that returns its weights too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inner(x, x, x, key_padding_mask=~mask)


def test_a_dense_module_may_return_more_than_nodes() -> None:
    testing.assert_permutation_equivariant(Attention(), trials=4)
