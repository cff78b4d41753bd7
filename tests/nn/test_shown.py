"""Repr of modules: every option that is not the default, on one line."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from mooring import nn as mnn
from mooring import ops, zoo
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

SIZES: dict[str, Any] = {"channels": CHANNELS, "slots": SLOTS, "heads": HEADS}
ADDRESSES = mnn.Addresses(ADDRESS, SLOTS, HEADS, 5)
UPDATE = {"mass": "log_odds", "anchor_init": 2.5, "mass_map": "linear", "content_dropout": 0.25}
# Module, how it is built at least, and another value of each option.
OPTIONS: dict[type[nn.Module], tuple[dict[str, Any], dict[str, Any]]] = {
    mnn.Addresses: ({"address_channels": ADDRESS, "slots": SLOTS, "heads": HEADS, "dim": 5}, {"temperature": 0.5}),
    mnn.SlotWrite: (SIZES, {"heads": 5, "temperature": 0.5, "addresses": ADDRESSES, "competition": True}),
    mnn.SlotRead: (SIZES, {"heads": 5, "out_channels": 7, "temperature": 0.5, "by_address": True}),
    mnn.SlotUpdate: (
        SIZES,
        {"heads": 5, "anchored": False, "split": False, "hidden_channels": 13, "norm": "batch", **UPDATE},
    ),
    mnn.SlotFiLM: ({"channels": CHANNELS}, {"hidden_channels": 13, "linear": True, "init_std": 0.5}),
    mnn.ResidualAdd: ({"channels": CHANNELS}, {"init_scale": 0.5}),
    mnn.GlobalFiLM: ({"channels": CHANNELS, "slots": SLOTS}, {"hidden_channels": 13, "init_std": 0.5}),
    VirtualNode: ({"channels": CHANNELS}, {"pool": "sum", "copies": 3, "scale": 0.5, "joint": False}),
    SlotAggregation: (
        SIZES,
        {"heads": 5, "anchored": False, "temperature": 0.5, "out_channels": 7, "update_norm": "batch"}
        | UPDATE
        | {"competition": True, "graph_channels": 3},
    ),
    SlotConv: (
        {"channels": 12, "conv": None},
        {"conv": GCNConv(12, 12), "dropout": 0.5, "act": "gelu", "norm": "batch_norm"} | {"memory": VirtualNode(12)},
    ),
    SlotVirtualNode: (
        SIZES,
        {"heads": 5, "anchored": False, "temperature": 0.5, "address_channels": ADDRESS, "split": False}
        | {"routing": "free", "address_norm": "batch"}
        | {"integrate": "residual", "hidden_channels": 13, "update_channels": 17, "update_norm": "batch"}
        | {"dropout": 0.125, "competition": True, "merge": ops.all_merge, "init_std": 0.5, "graph_channels": 3}
        | UPDATE,
    ),
    HeteroSlotVirtualNode: (
        {"channels": {"a": CHANNELS}, "slots": SLOTS, "heads": HEADS},
        {"heads": 5, "memory_channels": 20, "anchored": False, "temperature": 0.5, "competition": True}
        | {"routing": "free", "graph_channels": 3}
        | {"dropout": 0.125, "hidden_channels": 13, "init_std": 0.5, "split": False, "norm": "batch"}
        | UPDATE,
    ),
}
CASES = [(kind, name) for kind, (_, options) in OPTIONS.items() for name in options]
NAMES = {"GCNConv": GCNConv, **{name: getattr(mnn, name) for name in mnn.__all__}}
# SlotConv passes them on to its memory, which prints them.
PASSED_ON = {SlotConv: {"slots", "heads"}}


def printed(value: Any) -> str:
    return value.__name__ if inspect.isfunction(value) else repr(value)


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_every_option_is_in_the_table(kind: type[nn.Module]) -> None:
    least, options = OPTIONS[kind]
    known = {name for name, item in inspect.signature(kind).parameters.items() if item.kind is not item.VAR_KEYWORD}
    assert known <= {*least, *options, *PASSED_ON.get(kind, ())}


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind.__name__}-{name}" for kind, name in CASES])
def test_an_option_that_is_not_the_default_is_printed(kind: type[nn.Module], name: str) -> None:
    least, options = OPTIONS[kind]
    text = repr(kind(**{**least, name: options[name]}))
    assert f", {name}={printed(options[name])}" in text
    assert text != repr(kind(**least))


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_what_is_printed_builds_the_same(kind: type[nn.Module]) -> None:
    least, options = OPTIONS[kind]
    texts = [repr(kind(**{**least, name: value})) for name, value in options.items() if name != "merge"]
    for text in (repr(kind(**least)), *texts):
        assert repr(eval(text, dict(NAMES))) == text
        assert "\n" not in text


def test_a_default_is_not_printed() -> None:
    assert repr(SlotVirtualNode(64)) == "SlotVirtualNode(64, slots=8, heads=4, anchored=True)"
    assert repr(SlotVirtualNode(64, hidden_channels=16, init_std=1e-3)) == repr(SlotVirtualNode(64))
    assert repr(SlotVirtualNode(64, integrate="residual", init_std=0.1)).endswith(
        "anchored=True, integrate='residual')"
    )


def test_an_integration_is_printed_as_it_is() -> None:
    module = SlotVirtualNode(**SIZES, integrate=mnn.ResidualAdd(CHANNELS, init_scale=0.5))
    assert "integrate=ResidualAdd(10, init_scale=0.5)" in repr(module)


def test_modules_of_the_zoo_differ_where_they_differ() -> None:
    spec = zoo.MemorySpec(channels=16, slots=4)
    moored = repr(zoo.build("moored", spec))
    paper = "SlotVirtualNode(16, slots=4, heads=4, anchored=True, routing='free')"
    assert moored != repr(zoo.build("anchored", spec)) == paper
    assert "integrate='linear_film', mass_map='linear', competition=True" in moored


def test_a_width_that_is_not_known_yet_changes_no_option() -> None:
    for kind in (SlotVirtualNode, SlotAggregation):
        assert repr(kind(-1, SLOTS)) == f"{kind.__name__}(-1, slots={SLOTS}, heads=4, anchored=True)"
    assert repr(HeteroSlotVirtualNode(-1, SLOTS)) == "HeteroSlotVirtualNode(-1, slots=3, heads=4, anchored=True)"
    module = SlotVirtualNode(-1, SLOTS, update_channels=6)
    module(torch.randn(5, 24))
    assert repr(module) == "SlotVirtualNode(24, slots=3, heads=4, anchored=True, update_channels=6)"
