"""One message for a broadcast, M for M slots, all for dense attention; separable or joint."""

import pytest
import torch

from audit.specimens import AllPairs, Broadcast, GatedBroadcast, NodewiseOnly, Slots, SumReadout
from mooring.audit import adapt, measure
from mooring.audit.addressing import NODES, _round_spectrum


@pytest.mark.parametrize(
    ("module", "messages"),
    [(NodewiseOnly(), 0), (Broadcast(5), 1), (GatedBroadcast(5), 1), (SumReadout(), 1), (AllPairs(), NODES)],
)
def test_messages(module: torch.nn.Module, messages: int) -> None:
    assert measure("addressability", adapt(module, channels=5), 0, 2).value == messages


@pytest.mark.parametrize("slots", [2, 3, 7])
def test_m_slots_give_m_messages(slots: int) -> None:
    finding = measure("addressability", adapt(Slots(5, slots), channels=5), 0, 2)
    assert finding.value == slots
    assert finding.details["rank_together"] == 5 * slots
    assert len(finding.details["singular_values"]) == 5 * NODES


def test_cloned_slots_give_one_message() -> None:
    module = Slots(5, 3)
    with torch.no_grad():
        module.query[:] = module.query[0]
        module.address[:] = module.address[0]
    assert measure("addressability", adapt(module, channels=5), 0, 2).value == 1


def test_operations_without_a_batching_rule_are_measured_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Slots(5, 3)
    expected = measure("addressability", adapt(module, channels=5), 0, 1)
    grad = torch.autograd.grad

    def refuse(*args: object, **options: object) -> object:
        if options.pop("is_grads_batched", False):
            raise RuntimeError("no batching rule")
        return grad(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    assert measure("addressability", adapt(module, channels=5), 0, 1).value == expected.value


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


def test_a_spectrum_says_nothing_beyond_its_digits() -> None:
    exact = torch.tensor([31.4159265358, 2.0, 1e-12], dtype=torch.float64)
    shaken = exact * (1 + 1e-14)
    assert _round_spectrum(exact) == _round_spectrum(shaken) == [31.4159265, 2.0, 0.0]
    assert _round_spectrum(torch.zeros(2)) == [0.0, 0.0]
