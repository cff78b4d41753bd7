"""Blindness to copies, counting, the number of messages, and separability."""

import pytest
import torch
from torch import Tensor

from audit.specimens import AllPairs, Broadcast, GatedBroadcast, NaiveMean, NodewiseOnly, Parity, Slots, SumReadout
from mooring.audit import Finding, adapt, measure
from mooring.audit.expressiveness import NODES, count_probe, round_spectrum


def find(measurement: str, module: torch.nn.Module, channels: int, trials: int) -> Finding:
    return measure(measurement, adapt(module, channels=channels), 0, trials)


@pytest.mark.parametrize("module", [NaiveMean(), Broadcast(7), Slots(7, 3)])
def test_blind(module: torch.nn.Module) -> None:
    finding = find("replication", module, 7, 6)
    assert finding.verdict.startswith("blind")
    assert finding.value is not None
    assert finding.value < 1e-12


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7, "sum")])
def test_counts(module: torch.nn.Module) -> None:
    finding = find("replication", module, 7, 6)
    assert finding.details["counts"]
    assert finding.details["r2"] > 0.999
    assert finding.trials > 300


def test_seeing_copies_is_not_counting() -> None:
    finding = find("replication", Parity(), 7, 6)
    assert not finding.details["counts"]
    assert finding.verdict == "sees copies, but n is not recovered"


def samples(size: int, seed: int, store: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    count = torch.randint(1, 60, (size,), generator=generator).double()
    noise = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    stored = {
        "linear": count,
        "log": count.log(),
        "power": -count.sqrt(),
        "bent": torch.tanh(count / 30),
        "absent": noise[:, 0].clone(),
    }[store]
    return torch.cat([stored.unsqueeze(1), 0.1 * noise], dim=1), count


@pytest.mark.parametrize("store", ["linear", "log", "power", "bent"])
def test_a_stored_count_is_found(store: str) -> None:
    result = count_probe(samples(300, 0, store), samples(89, 1, store))
    assert result.r2 > 0.98


def test_no_count_is_found_where_there_is_none() -> None:
    assert count_probe(samples(300, 0, "absent"), samples(89, 1, "absent")).r2 < 0.2


def test_rounding_noise_is_not_a_feature() -> None:
    features, count = samples(300, 0, "absent")
    features = torch.cat([features, 1.0 + 1e-15 * count.unsqueeze(1)], dim=1)
    other, other_count = samples(89, 1, "absent")
    other = torch.cat([other, 1.0 + 1e-15 * other_count.unsqueeze(1)], dim=1)
    assert count_probe((features, count), (other, other_count)).r2 < 0.2


@pytest.mark.parametrize(
    ("module", "messages"),
    [(NodewiseOnly(), 0), (Broadcast(5), 1), (GatedBroadcast(5), 1), (SumReadout(), 1), (AllPairs(), NODES)],
)
def test_messages(module: torch.nn.Module, messages: int) -> None:
    assert find("addressability", module, 5, 2).value == messages


@pytest.mark.parametrize("slots", [2, 3, 7])
def test_m_slots_give_m_messages(slots: int) -> None:
    finding = find("addressability", Slots(5, slots), 5, 2)
    assert finding.value == slots
    assert finding.details["rank_together"] == 5 * slots
    assert len(finding.details["singular_values"]) == 5 * NODES


def test_cloned_slots_give_one_message() -> None:
    module = Slots(5, 3)
    with torch.no_grad():
        module.query[:] = module.query[0]
        module.address[:] = module.address[0]
    assert find("addressability", module, 5, 2).value == 1


def test_operations_without_a_batching_rule_are_measured_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Slots(5, 3)
    expected = find("addressability", module, 5, 1)
    grad = torch.autograd.grad

    def refuse(*args: object, **options: object) -> object:
        if options.pop("is_grads_batched", False):
            raise RuntimeError("no batching rule")
        return grad(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    assert find("addressability", module, 5, 1).value == expected.value


def test_additive_broadcast_is_separable() -> None:
    finding = find("separability", Broadcast(7), 7, 5)
    assert finding.details["separable"]


@pytest.mark.parametrize("module", [GatedBroadcast(7), Slots(7, 3)])
def test_gates_and_slots_are_not(module: torch.nn.Module) -> None:
    finding = find("separability", module, 7, 5)
    assert not finding.details["separable"]
    assert finding.value is not None
    assert finding.value > 1e-3


@pytest.mark.parametrize(
    ("module", "verdict"), [(NodewiseOnly(), "nothing travels between nodes"), (SumReadout(), "a readout")]
)
def test_nothing_to_separate(module: torch.nn.Module, verdict: str) -> None:
    finding = find("separability", module, 7, 3)
    assert finding.value is None
    assert finding.verdict.startswith(verdict)


def test_a_spectrum_says_nothing_beyond_its_digits() -> None:
    exact = torch.tensor([31.4159265358, 2.0, 1e-12], dtype=torch.float64)
    shaken = exact * (1 + 1e-14)
    assert round_spectrum(exact) == round_spectrum(shaken) == [31.4159265, 2.0, 0.0]
    assert round_spectrum(torch.zeros(2)) == [0.0, 0.0]
