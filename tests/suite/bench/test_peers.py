"""Contestants that no library has ready-made are what they claim to be, wherever they run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mooring.suite.bench import Setting
from mooring.suite.bench.measure import floor
from mooring.suite.bench.peers import PEERS, FlexSlots, LocalLayer, PaddedSlots, ProjectedSlots, get_peer
from mooring.suite.bench.shapes import get_shape

SMALL = Setting(dim=8, slots=3, heads=2)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_slots_are_projected_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not compiled, which takes a minute: the same function, run step by step.
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    sizes = torch.tensor([5, 2, 11])
    batch, x = torch.repeat_interleave(torch.arange(3), sizes), torch.randn(18, 8)
    flex, plain = FlexSlots(SMALL), ProjectedSlots(SMALL)
    plain.load_state_dict(flex.state_dict())
    with torch.no_grad():
        found = flex(x, batch, 3)
        expected = [
            plain(part.unsqueeze(0), torch.ones(1, len(part), dtype=torch.bool)) for part in x.split(sizes.tolist())
        ]
    torch.testing.assert_close(found, torch.cat(expected, dim=1).squeeze(0))


def test_the_padded_formulation_is_the_module() -> None:
    padded = PaddedSlots(Setting(dim=12, slots=5, heads=3)).double()
    with torch.no_grad():
        padded.memory.integrate.lin_film.weight.normal_(std=0.5)
    batch = get_shape("molecules-6").batch()
    x = torch.randn(len(batch), 12, dtype=torch.float64)
    torch.testing.assert_close(padded(x, batch, 6), padded.memory(x, batch))


def test_a_molecule_is_a_chain() -> None:
    layer = LocalLayer(Setting(dim=4, slots=2, heads=1))
    layer(torch.randn(5, 4), torch.tensor([0, 0, 0, 1, 1]), 2)
    assert layer.edges is not None
    assert layer.edges[0].tolist() == [[0, 1, 3, 1, 2, 4], [1, 2, 4, 0, 1, 3]]


class Devices(TorchDispatchMode):
    """Keeps where the results of all operations are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.found.add(out.device.type)
        return out


@pytest.fixture
def another_device(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device that every machine has beside its CPU: tensors without data, which no operation mixes with others."""
    monkeypatch.setattr("mooring.suite.bench.shapes.DEVICES", ("meta",))
    return "meta"


@pytest.mark.parametrize("slots", [3, 64])
def test_the_floor_stands_on_the_device_of_the_setting(slots: int, another_device: str) -> None:
    with Devices() as devices:
        for run in floor(7, Setting(8, slots, 2, another_device), backward=True).values():
            run()
    assert devices.found == {another_device}


@pytest.mark.parametrize("name", ["slots", "slots, bf16", "ISAB", "projected + SDPA", "GPSConv multihead", "zoo.lse"])
def test_a_peer_is_placed_on_the_device_of_the_setting(name: str, another_device: str) -> None:
    peer = get_peer(name)
    weights = list(peer.place(Setting(8, 3, 2, another_device)).parameters())
    assert {(weight.device.type, weight.dtype) for weight in weights} == {(another_device, peer.dtype)}


def test_only_a_cpu_lacks_the_backward_of_flex_attention() -> None:
    assert "no backward on CPU" in PEERS["flex_attention"].no_backward("cpu")
    assert not PEERS["flex_attention"].no_backward("cuda")
