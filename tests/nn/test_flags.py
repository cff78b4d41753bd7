"""Boolean options accept only booleans; return_state accepts three values."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mooring
from mooring import models, ops, zoo
from mooring import nn as mnn
from mooring.nn import MemorySpec, SlotMemory
from mooring.ops import SlotState
from mooring.zoo.base import GlobalModule
from mooring.zoo.broadcasts import StarGIN, WideVirtualNode, added
from mooring.zoo.counting import MagnitudeUpdate, RegisterVirtualNode, TokenWrite
from mooring.zoo.latents import RelayRead

from modules import CHANNELS, HEADS, SLOTS  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

SIZES: dict[str, Any] = {"channels": CHANNELS, "slots": SLOTS, "heads": HEADS}
SPEC = MemorySpec(**SIZES)
# Every public constructor with a boolean option, and what else it needs.
BUILDS: dict[type, dict[str, Any]] = {
    mnn.SlotVirtualNode: SIZES,
    mnn.SlotWrite: SIZES,
    mnn.SlotRead: SIZES,
    mnn.SlotUpdate: SIZES,
    mnn.SlotAggregation: SIZES,
    mnn.HeteroSlotVirtualNode: SIZES,
    mnn.VirtualNode: {"channels": CHANNELS},
    mnn.SlotFiLM: {"channels": CHANNELS},
    mnn.MemorySpec: {"channels": CHANNELS},
    models.GNN: {"encoder": 3, "channels": CHANNELS, "out_channels": 1, "memory": mnn.VirtualNode(CHANNELS)},
    models.Layer: {"channels": CHANNELS},
    models.PositionEncoder: {"in_channels": 3, "channels": CHANNELS},
    StarGIN: {"spec": SPEC},
    RelayRead: {"spec": SPEC, "out_channels": 11, "by_address": False},
    TokenWrite: {"spec": SPEC, "addresses": None, "tokens": 2, "silent": False},
    RegisterVirtualNode: {"spec": SPEC, "tokens": 2},
    MagnitudeUpdate: {"spec": SPEC, "total": False},
    WideVirtualNode: {"spec": SPEC, "decoder": added(SPEC)},
    mooring.checks: {"on": True},
}


def flags(kind: type) -> list[str]:
    parameters = inspect.signature(kind).parameters.items()
    return [name for name, item in parameters if item.annotation in (bool, "bool", "bool | None")]


# Options of the update that HeteroSlotVirtualNode passes on, and those of a base class.
OPTIONS = [(kind, name) for kind in BUILDS for name in flags(kind)] + [(mnn.HeteroSlotVirtualNode, "split")]


def test_every_boolean_option_is_in_the_table() -> None:
    public = [getattr(home, name) for home in (mnn, models, zoo) for name in home.__all__]
    kinds = {kind for kind in public if inspect.isclass(kind) and flags(kind)}
    assert kinds - {GlobalModule, mnn.MemoryOptions} <= BUILDS.keys()


@pytest.mark.parametrize("value", ["False", "off", "", 1, 0, 1.0, [], torch.tensor(True)], ids=repr)
@pytest.mark.parametrize(("kind", "name"), OPTIONS, ids=[f"{kind.__name__}-{name}" for kind, name in OPTIONS])
def test_only_true_and_false_are_flags(kind: type, name: str, value: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}: {name} is .* but True or False was expected\. Pass a bool"
    ):
        kind(**{**BUILDS[kind], name: value})
    assert mooring.ops.checks.checks.value is True


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(("kind", "name"), OPTIONS, ids=[f"{kind.__name__}-{name}" for kind, name in OPTIONS])
def test_numpys_booleans_are_flags(kind: type, name: str, value: bool) -> None:
    least = {**BUILDS[kind], **({"memory": mnn.SlotVirtualNode(**SIZES)} if name == "carry" else {})}
    try:
        theirs, ours = kind(**{**least, name: np.bool_(value)}), kind(**{**least, name: value})
        assert getattr(theirs, name, None) == getattr(ours, name, None)
        if isinstance(ours, nn.Module):
            assert {key: tensor.shape for key, tensor in theirs.state_dict().items()} == {
                key: tensor.shape for key, tensor in ours.state_dict().items()
            }
            assert repr(theirs) == repr(ours)
        elif kind is mooring.checks:
            assert mooring.ops.checks.checks.value is value
    finally:
        mooring.checks(True)


NODES = torch.zeros(5, 1, 4)
STATE = SlotState(torch.zeros(1, SLOTS, 1, 4), torch.zeros(1, SLOTS, 1))
SLOT = torch.zeros(SLOTS, 1, 4)
CALLS: dict[str, Callable[..., Any]] = {
    "read-sum_heads": lambda flag: ops.read(NODES, SLOT, SLOT[None], sum_heads=flag),
    "read-residual": lambda flag: ops.read(NODES, SLOT, SLOT[None], sum_heads=True, residual=flag),
    "write_weights-alone": lambda flag: ops.write_weights(STATE, SLOT, NODES, alone=flag),
    "map_heads-transposed": lambda flag: ops.map_heads(torch.ones(2, 3, 4), torch.ones(3, 4, 4), transposed=flag),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_flags_of_ops(call: str) -> None:
    who, name = call.split("-")
    assert torch.equal(CALLS[call](np.True_), CALLS[call](True))
    with pytest.raises(TypeError, match=f"^{who}: {name} is 'no' but True or False was expected"):
        CALLS[call]("no")


X, IDS, EDGES = torch.randn(5, CHANNELS), torch.tensor([0, 0, 1, 1, 1]), torch.tensor([[0, 1], [1, 0]])


def network(**options: Any) -> nn.Module:
    return models.GNN(CHANNELS, CHANNELS, 1, layers=2, norm="layer", memory=mnn.SlotVirtualNode(**SIZES), **options)


def of_zoo(name: str) -> Callable[..., Any]:
    module: Any = zoo.build(name, SPEC)
    return lambda state: module(X, IDS, return_state=state)


# A memory in all of what is returned, or None for a module that has none.
STATES: dict[str, Callable[..., Any]] = {
    "SlotVirtualNode": lambda state: mnn.SlotVirtualNode(**SIZES)(X, IDS, return_state=state),
    "SlotVirtualNode, many empty graphs": lambda state: mnn.SlotVirtualNode(**SIZES)(
        X, IDS, num_graphs=50, return_state=state
    ),
    "VirtualNode": lambda state: mnn.VirtualNode(CHANNELS)(X, IDS, return_state=state),
    "SlotAggregation": lambda state: mnn.SlotAggregation(**SIZES)(X, IDS, return_state=state),
    "SlotConv": lambda state: mnn.SlotConv(conv=None, **SIZES)(X, EDGES, IDS, return_state=state),
    "HeteroSlotVirtualNode": lambda state: mnn.HeteroSlotVirtualNode(**SIZES)({"a": X}, return_state=state),
    "OGBVirtualNode": lambda state: models.OGBVirtualNode(CHANNELS)(X, IDS, return_state=state),
    "GNN": lambda state: network()(X, EDGES, batch=IDS, return_state=state),
    "GNN, carried": lambda state: network(carry=True)(X, EDGES, batch=IDS, return_state=state),
    "WithNodeMLP": lambda state: zoo.filled(mnn.VirtualNode(CHANNELS), SPEC)(X, IDS, return_state=state),
    **{name: of_zoo(name) for name in ("gmt", "transformer", "isab", "deep-sets")},
}


@pytest.mark.parametrize("value", ["slot", "True", "", 1, None])
@pytest.mark.parametrize("module", STATES)
def test_return_state_accepts_three_values(module: str, value: Any) -> None:
    words = "True, False or 'slots'" if isinstance(value, str) else "True or False"
    with pytest.raises(
        (TypeError, ValueError), match=f"^[A-Za-z]+: return_state is {value!r} but {words} was expected"
    ):
        STATES[module](value)


@pytest.mark.parametrize("module", STATES)
def test_the_slots_of_a_state_have_no_weights(module: str) -> None:
    assert not isinstance(STATES[module](False), tuple)
    assert not isinstance(STATES[module](np.False_), tuple)
    for value in (True, np.True_, "slots"):
        _, memory = STATES[module](value)
        memory = memory[0] if isinstance(memory, dict) else memory
        assert isinstance(memory, SlotMemory) or module == "transformer"
        if value == "slots" and memory is not None:
            assert memory.write_weights is memory.read_weights is memory.anchor_weight is None
