"""MemorySpec: its options are those of the module, and every option reaches it."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import pytest
import torch

from mooring import zoo
from mooring.nn import GlobalFiLM, MemoryOptions, MemorySpec, ResidualAdd, SlotFiLM, SlotVirtualNode
from mooring.nn.slot_virtual_node import IntegrationName

SPEC = MemorySpec(channels=12, slots=5, heads=3)

# Arguments of the module that no spec has: which model it is, and a function.
LEFT_OUT = {"anchored", "merge", "graph_channels"}
# What a spec starts with where the module's own default is another one, or none.
OWN_DEFAULTS = {"slots", "init_std", "temperature", "routing"}


def test_the_module_and_the_spec_have_the_same_options() -> None:
    arguments = inspect.signature(SlotVirtualNode).parameters
    known = {item.name: item for item in fields(MemorySpec)}
    assert known.keys() == arguments.keys() - LEFT_OUT
    for name in known.keys() - OWN_DEFAULTS - {"channels"}:
        assert known[name].default == arguments[name].default, name


def test_integrations_are_those_of_the_module() -> None:
    assert get_args(get_type_hints(MemoryOptions)["integrate"]) == get_args(IntegrationName)


def seen(module: SlotVirtualNode) -> dict[str, Any]:
    """Return the value of each option in a module."""
    return {
        "channels": module.channels,
        "slots": module.slots,
        "heads": module.heads,
        "temperature": module.write.temperature,
        "address_channels": module.address_channels,
        "routing": module.routing,
        "address_norm": module.address_norm,
        "init_std": module.integrate.init_std,
        "mass": module.update.mass,
        "split": module.update.split,
        "integrate": type(module.integrate),
        "mass_map": "linear" if isinstance(getattr(module.update, "mass_mlp", None), torch.nn.Linear) else "mlp",
        "update_norm": module.update.norm,
        "content_dropout": module.update.content_dropout,
        "dropout": module.dropout,
        "competition": module.write.null_logit is not None,
        "anchor_init": module.update.anchor_logit.flatten()[0].item(),
        "hidden_channels": module.integrate.context_channels,
        "update_channels": module.update.feed_forward[0].out_features,
    }


CHANGED = {
    "channels": 6,
    "slots": 7,
    "heads": 2,
    "temperature": 0.5,
    "address_channels": 11,
    "routing": "self",
    "address_norm": "batch",
    "init_std": 0.25,
    "mass": "log_odds",
    "split": False,
    "integrate": "global_film",
    "anchor_init": 2.5,
    "hidden_channels": 13,
    "update_channels": 17,
    "mass_map": "linear",
    "update_norm": "batch",
    "content_dropout": 0.25,
    "dropout": 0.125,
    "competition": True,
}


@pytest.mark.parametrize("name", [item.name for item in fields(MemorySpec)])
def test_every_option_reaches_the_module(name: str) -> None:
    spec = replace(SPEC, routing="self") if name == "address_norm" else SPEC  # it has no effect on other routings
    before, after = (seen(SlotVirtualNode.from_spec(item)) for item in (spec, replace(spec, **{name: CHANGED[name]})))
    assert before[name] != after[name]
    if name == "integrate":
        assert after[name] is GlobalFiLM
    else:
        assert after[name] == CHANGED[name]


def test_changes_win_over_the_spec() -> None:
    module = SlotVirtualNode.from_spec(SPEC, anchored=False, integrate="residual")
    assert isinstance(module.integrate, ResidualAdd)
    assert not module.anchored
    assert module(torch.randn(4, 12)).shape == (4, 12)
    assert SlotVirtualNode.from_spec(SPEC, channels=24).integrate.context_channels == 24


def test_options_are_brought_to_the_widths_of_a_task() -> None:
    options = MemoryOptions(slots=5, heads=3)
    assert options.at(12) == SPEC
    assert options.at(12, 7) == replace(SPEC, address_channels=7)
    # A spec is at other widths again by the same word.
    assert options.at(12, 7).at(12) == SPEC
    assert (SPEC.hidden, replace(SPEC, hidden_channels=3).hidden) == (12, 3)


COUNTS = ("slots", "heads", "hidden_channels", "update_channels", "address_channels")
WRONG: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(COUNTS, (-3, 0, 2.0, "4")),
    **dict.fromkeys(("split", "competition"), ("no", 1, None)),
    **dict.fromkeys(("dropout", "content_dropout"), (1.0, -0.5, "0")),
    **dict.fromkeys(("init_std", "anchor_init"), (float("inf"), "1", None)),
    **dict.fromkeys(("mass", "mass_map", "update_norm", "integrate", "routing", "address_norm"), ("lenear", None)),
    "temperature": (0.0, -1.0, "1", float("nan")),
}
REFUSED = [(name, value) for name, values in WRONG.items() for value in values]


def test_every_option_is_checked() -> None:
    assert WRONG.keys() == {item.name for item in fields(MemorySpec)} - {"channels"}


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=[f"{name}-{value!r}" for name, value in REFUSED])
def test_a_spec_checks_options_that_a_module_ignores(name: str, value: Any, as_users_run_it: None) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^MemorySpec: {name} is {value!r} but"):
        MemorySpec(channels=12, **{name: value})


@pytest.mark.parametrize("spec", [8, None, {"channels": 8}, MemoryOptions()], ids=repr)
def test_a_module_is_made_from_a_spec_alone(spec: Any, as_users_run_it: None) -> None:
    with pytest.raises(TypeError, match=r"^SlotVirtualNode: spec is .* but a MemorySpec was expected\. Pass"):
        SlotVirtualNode.from_spec(spec)


# What all models of a run are given, whichever of them have a place for it.
GENERAL = replace(SPEC, mass="log_odds", mass_map="linear", anchor_init=2.0, hidden_channels=7)


@pytest.mark.parametrize("integrate", get_args(IntegrationName))
@pytest.mark.parametrize("name", ["cross-attn", "anchored", "anchored-raw", "moored", "lse", "shared-anchor", "gmt"])
def test_options_without_effect_are_left_out_of_the_arguments(name: str, integrate: Any) -> None:
    for split in (True, False):
        assert zoo.build(name, replace(GENERAL, integrate=integrate, split=split)) is not None


def test_a_change_without_effect_is_refused_all_the_same() -> None:
    with pytest.raises(ValueError, match="hidden_channels=5 has no effect with integrate='residual'"):
        SlotVirtualNode.from_spec(SPEC, integrate="residual", hidden_channels=5)
    with pytest.raises(ValueError, match="mass='log_odds' has no effect without an anchor"):
        SlotVirtualNode.from_spec(SPEC, anchored=False, mass="log_odds")
    integration = SlotFiLM(12)
    assert SlotVirtualNode.from_spec(GENERAL, integrate=integration).integrate is integration
