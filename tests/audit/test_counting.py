"""Blind, counting, and seeing copies without counting; a probe that finds counts however they are stored."""

import pytest
import torch
from torch import Tensor

from audit.specimens import Broadcast, NaiveMean, Parity, Slots, SumReadout
from mooring.audit import adapt, measure
from mooring.audit.counting import count_probe


@pytest.mark.parametrize("module", [NaiveMean(), Broadcast(7), Slots(7, 3)])
def test_blind(module: torch.nn.Module) -> None:
    finding = measure("replication", adapt(module, channels=7), 0, 6)
    assert finding.verdict.startswith("blind")
    assert finding.value is not None
    assert finding.value < 1e-12


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7, "sum")])
def test_counts(module: torch.nn.Module) -> None:
    finding = measure("replication", adapt(module, channels=7), 0, 6)
    assert finding.details["counts"]
    assert finding.details["r2"] > 0.999
    assert finding.trials > 300


def test_seeing_copies_is_not_counting() -> None:
    finding = measure("replication", adapt(Parity(), channels=7), 0, 6)
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
