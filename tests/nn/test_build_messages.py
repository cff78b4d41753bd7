"""Messages for invalid constructor arguments."""

import re
from typing import Any

import pytest
import torch
from torch import nn

from mooring import nn as mnn
from mooring.nn import SlotVirtualNode

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
# Not a number at all, and a count that is none: module, what is right of it, what each argument may not be.
WIDTH = [0, -3, 2.0, True, "4", torch.tensor(2)]
NUMBER = [*NOT_FINITE, "1", True, [1.0]]
POSITIVE = [*NUMBER, 0.0, -1.0]
SHARE = [*NUMBER, 1.0, -0.5]
SIZES: dict[str, Any] = {"channels": CHANNELS, "slots": SLOTS, "heads": HEADS}
WIDTHS = {"channels": WIDTH, "slots": WIDTH, "heads": [*WIDTH, 3]}
DEVIATION = [*NUMBER, -1e-3]
BUILDS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "Addresses": (
        {"address_channels": ADDRESS, "slots": SLOTS, "heads": HEADS, "dim": 5},
        {"address_channels": WIDTH, "slots": WIDTH, "heads": WIDTH, "dim": WIDTH, "temperature": POSITIVE},
    ),
    "SlotWrite": (SIZES, {**WIDTHS, "temperature": POSITIVE, "addresses": ["yes", 3]}),
    "SlotRead": (SIZES, {**WIDTHS, "temperature": POSITIVE, "out_channels": WIDTH, "by_address": ["yes", 3]}),
    "SlotUpdate": (
        SIZES,
        {
            **WIDTHS,
            "hidden_channels": WIDTH,
            "anchor_init": NUMBER,
            "content_dropout": SHARE,
            "mass": ["softmax", None],
            "mass_map": ["mpl", 3],
            "norm": ["bacth", None],
        },
    ),
    "SlotFiLM": ({"channels": CHANNELS}, {"channels": WIDTH, "hidden_channels": WIDTH, "init_std": DEVIATION}),
    "ResidualAdd": ({"channels": CHANNELS}, {"channels": WIDTH, "init_scale": NUMBER}),
    "GlobalFiLM": (
        {"channels": CHANNELS, "slots": SLOTS},
        {"channels": WIDTH, "slots": WIDTH, "hidden_channels": WIDTH, "init_std": DEVIATION},
    ),
    "SlotVirtualNode": (
        SIZES,
        {
            **WIDTHS,
            **dict.fromkeys(("address_channels", "hidden_channels", "update_channels"), WIDTH),
            "temperature": POSITIVE,
            "anchor_init": NUMBER,
            "init_std": DEVIATION,
            "mass": ["softmax"],
            "update_norm": ["bacth"],
            "address_norm": ["bacth"],
            "integrate": ["flim", None, nn.Linear(CHANNELS, CHANNELS)],
            "merge": ["all", 3],
        },
    ),
    "VirtualNode": (
        {"channels": CHANNELS},
        {"channels": WIDTH, "copies": WIDTH, "scale": NUMBER, "pool": ["avg", None]},
    ),
    "SlotAggregation": (
        SIZES,
        {
            **WIDTHS,
            "temperature": POSITIVE,
            "out_channels": WIDTH,
            "anchor_init": NUMBER,
            "content_dropout": SHARE,
            "mass": ["softmax"],
            "mass_map": ["mpl"],
            "update_norm": ["graph"],
        },
    ),
    "SlotConv": (
        {**SIZES, "conv": None},
        {
            "channels": WIDTH,
            "dropout": SHARE,
            "act": ["rellu", 3],
            "norm": ["bacth_norm", True, 3],
            "conv": ["gcn"],
            "memory": ["slots"],
        },
    ),
    "HeteroSlotVirtualNode": (
        {**SIZES, "channels": {"a": CHANNELS}},
        {
            **dict.fromkeys(("memory_channels", "hidden_channels"), WIDTH),
            "heads": [3],
            "temperature": POSITIVE,
            "dropout": SHARE,
            "init_std": DEVIATION,
            "mass": ["softmax"],
            "norm": ["bacth"],
            "content_dropout": SHARE,
        },
    ),
}
BAD_BUILDS = [
    (module, argument, value)
    for module, (_, wrong) in BUILDS.items()
    for argument, values in wrong.items()
    for value in values
]


def shown(value: Any) -> str:
    """Return a value as messages show it: literals by repr, everything else by type."""
    return f"{value!r}" if isinstance(value, bool | int | float | str | None) else f"a {type(value).__name__}"


@pytest.mark.parametrize(
    ("module", "argument", "value"), BAD_BUILDS, ids=[f"{m}-{a}-{shown(v)}" for m, a, v in BAD_BUILDS]
)
def test_invalid_arguments_raise(module: str, argument: str, value: Any) -> None:
    right = BUILDS[module][0]
    build = getattr(mnn, module)
    build(**right)
    with pytest.raises((ValueError, TypeError)) as caught:
        build(**{**right, argument: value})
    message = str(caught.value)
    assert message.startswith(f"{module}: "), message
    assert argument in message
    if isinstance(value, bool | int | float | str | None):
        assert str(value) in message
    else:
        assert type(value).__name__ in message
    assert "expected" in message or "Pick heads" in message or "context_channels" in message


def test_a_wrong_word_is_answered_with_the_right_ones() -> None:
    with pytest.raises(ValueError, match="'film', 'linear_film', 'residual', 'global_film' or a module"):
        SlotVirtualNode(**SIZES, integrate="concat")  # type: ignore[arg-type]


# What else a message says, where it does not say the value.
WORDS: list[tuple[str, dict[str, Any], str]] = [
    ("HeteroSlotVirtualNode", {"update_norm": "batch"}, "unknown argument 'update_norm'; did you mean 'norm'?"),
    ("HeteroSlotVirtualNode", {"bogus": 3}, "unknown argument 'bogus'; those of the update are mass, split"),
    ("HeteroSlotVirtualNode", {"channels": {3: 10}}, "the node type 3 but types are named by strings. Pass {'3': 10}."),
    ("HeteroSlotVirtualNode", {"channels": {"a": 0}}, "channels of 'a' is 0 but at least 1 was expected"),
    ("HeteroSlotVirtualNode", {"memory_channels": 9}, "memory_channels=9 cannot be split over heads=2. Pick heads"),
    *(
        (module, {"addresses": mnn.Addresses(ADDRESS, *sizes, 5)}, f"(slots, heads) = {sizes} but slots=3 and heads=2")
        for module in ("SlotWrite",)
        for sizes in ((SLOTS + 1, HEADS), (SLOTS, 1))
    ),
]


@pytest.mark.parametrize(("module", "wrong", "words"), WORDS, ids=[f"{m}-{w[:30]}" for m, _, w in WORDS])
def test_the_words_of_a_build(module: str, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{module}: .*{re.escape(words)}"):
        getattr(mnn, module)(**{**SIZES, **wrong})


# Arguments that change nothing beside the others.
IDLE: list[tuple[str, dict[str, Any], str]] = [
    ("SlotVirtualNode", {"integrate": "residual", "hidden_channels": 5}, "with integrate='residual'"),
    ("SlotVirtualNode", {"integrate": mnn.SlotFiLM(CHANNELS), "hidden_channels": 5}, "an integration that is built"),
    ("SlotVirtualNode", {"integrate": mnn.SlotFiLM(CHANNELS), "init_std": 0.5}, "an integration that is built"),
    *(
        (module, {**beside, name: value}, words)
        for module in ("SlotVirtualNode", "SlotAggregation", "SlotUpdate", "HeteroSlotVirtualNode")
        for beside, names, words in (
            ({"anchored": False}, ("mass", "split", "anchor_init", "mass_map"), "without an anchor"),
            ({"split": False}, ("mass", "mass_map"), "without split channels"),
        )
        for name, value in {"mass": "log_odds", "split": False, "anchor_init": 2.0, "mass_map": "linear"}.items()
        if name in names and not (module == "SlotAggregation" and "split" in (name, *beside))
    ),
    *(
        (module, {"addresses": mnn.Addresses(ADDRESS, SLOTS, HEADS, 5, 0.5), "temperature": 0.25}, "of addresses, 0.5")
        for module in ("SlotWrite",)
    ),
]


@pytest.mark.parametrize(("module", "arguments", "words"), IDLE, ids=[f"{m}-{'-'.join(a)}" for m, a, _ in IDLE])
def test_an_argument_without_effect_is_refused(module: str, arguments: dict[str, Any], words: str) -> None:
    build, (name, value) = getattr(mnn, module), list(arguments.items())[-1]
    build(**SIZES, **{key: other for key, other in arguments.items() if key != name})
    with pytest.raises(ValueError, match=f"^{module}: {name}={value!r} has no effect.*{words}"):
        build(**SIZES, **arguments)


def test_addresses_have_the_temperature_of_the_module() -> None:
    """The temperature is that of the addresses, or the default."""
    for temperature in (0.5, 1.0):
        mnn.SlotWrite(**SIZES, addresses=mnn.Addresses(ADDRESS, SLOTS, HEADS, 5, 0.5), temperature=temperature)
