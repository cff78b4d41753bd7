"""Wrong input, word for word."""

from typing import Any

import pytest
import torch

from mooring.nn import SlotVirtualNode, VirtualNode

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NODES = 5
RIGHT = {"x": torch.zeros(NODES, CHANNELS), "batch": torch.tensor([0, 0, 1, 1, 1])}
NAN = torch.tensor([1.0, 0.0, float("nan"), 1.0, 1.0])

FORWARD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"x": torch.zeros(NODES, 7)},
        ValueError,
        "SlotVirtualNode: x has width 7 but channels=10. Build it with channels=7 or project x first.",
    ),
    (
        {"x": torch.zeros(CHANNELS)},
        ValueError,
        "SlotVirtualNode: x has shape (10,) but [nodes, channels] was expected. Add or drop an axis.",
    ),
    (
        {"x": torch.zeros(NODES, CHANNELS).long()},
        TypeError,
        "SlotVirtualNode: x has dtype int64 but a floating one was expected. Pass x.float().",
    ),
    (
        {"x": torch.zeros(NODES, CHANNELS).double()},
        TypeError,
        "SlotVirtualNode: x has dtype float64 but the module has float32. "
        "Convert one of them, e.g. module.to(x.dtype).",
    ),
    (
        {"x": torch.zeros(NODES, CHANNELS, device="meta")},
        ValueError,
        "SlotVirtualNode: x is on meta but the module is on cpu. Move one of them, e.g. module.to(x.device).",
    ),
    (
        {"batch": torch.zeros(NODES, dtype=torch.long, device="meta")},
        ValueError,
        "SlotVirtualNode: batch is on meta but x is on cpu. Move one of them, e.g. batch.to(x.device).",
    ),
    (
        {"batch": torch.zeros(NODES)},
        TypeError,
        "SlotVirtualNode: batch has dtype float32 but graph ids are int64. Pass batch.long().",
    ),
    (
        {"batch": torch.zeros(7, dtype=torch.long)},
        ValueError,
        "SlotVirtualNode: batch has shape (7,) but x has 5 nodes. Pass one entry for each node.",
    ),
    (
        {"num_graphs": 1},
        ValueError,
        "SlotVirtualNode: batch has ids from 0 to 1 but num_graphs=1. "
        "Number the graphs from 0, or raise num_graphs to 2.",
    ),
    (
        {"batch": torch.tensor([-1, 0, 0, 1, 1])},
        ValueError,
        "SlotVirtualNode: batch has ids from -1 to 1 but num_graphs=2. "
        "Number the graphs from 0, or raise num_graphs to 2.",
    ),
    (
        {"sources": NAN},
        TypeError,
        "SlotVirtualNode: sources has dtype float32 but a node mask is boolean. Pass sources > 0, or its like.",
    ),
    (
        {"targets": torch.ones(3, dtype=torch.bool)},
        ValueError,
        "SlotVirtualNode: targets has shape (3,) but x has 5 nodes. Pass one entry for each node.",
    ),
    (
        {"log_weight": NAN},
        ValueError,
        "SlotVirtualNode: log_weight is nan at node 2 but it must be finite or -inf. "
        "Pass the logarithm of a weight, -inf to leave a node out.",
    ),
    (
        {"address": torch.zeros(NODES, ADDRESS)},
        ValueError,
        "SlotVirtualNode: got an address but routes by content. Build it with address_channels=7.",
    ),
]
ADDRESSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {},
        ValueError,
        "SlotVirtualNode: routes by address (address_channels=7) but got none. Pass address=[nodes, address_channels].",
    ),
    (
        {"address": torch.zeros(NODES, 11)},
        ValueError,
        "SlotVirtualNode: address has width 11 but address_channels=7. "
        "Build it with address_channels=11 or project address first.",
    ),
    (
        {"address": torch.zeros(3, ADDRESS)},
        ValueError,
        "SlotVirtualNode: address has 3 rows but x has 5 nodes. Pass one row for each node.",
    ),
    (
        {"address": torch.zeros(NODES, ADDRESS).long()},
        TypeError,
        "SlotVirtualNode: address has dtype int64 but a floating one was expected. Pass address.float().",
    ),
    (
        {"address": torch.zeros(NODES, ADDRESS, device="meta")},
        ValueError,
        "SlotVirtualNode: address is on meta but x is on cpu. Move one of them, e.g. address.to(x.device).",
    ),
]
BUILD: list[tuple[dict[str, Any], str]] = [
    ({"channels": 0}, "SlotVirtualNode: channels is 0 but at least 1 was expected."),
    ({"slots": 0}, "SlotVirtualNode: slots is 0 but at least 1 was expected."),
    (
        {"heads": 3},
        "SlotVirtualNode: channels=10 cannot be split over heads=3. Pick heads that divide channels.",
    ),
    ({"temperature": 0.0}, "SlotVirtualNode: temperature is 0.0 but a positive one was expected."),
    (
        {"integrate": "concat"},
        "SlotVirtualNode: integrate is 'concat' but 'film', 'residual', 'global_film' or a module was expected.",
    ),
]


def ids(cases: list[Any]) -> list[str]:
    return [case[-1][17:60] for case in cases]


@pytest.mark.parametrize(("wrong", "error", "message"), FORWARD, ids=ids(FORWARD))
def test_forward(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    for module in (SlotVirtualNode(CHANNELS, SLOTS, HEADS), VirtualNode(CHANNELS)):
        module(**RIGHT)
        if "address" in wrong and isinstance(module, VirtualNode):
            continue  # takes any address and has no use for it
        with pytest.raises(error) as caught:
            module(**{**RIGHT, **wrong})
        assert str(caught.value) == message.replace("SlotVirtualNode", type(module).__name__)


@pytest.mark.parametrize(("wrong", "error", "message"), ADDRESSED, ids=ids(ADDRESSED))
def test_forward_with_addresses(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS, address_channels=ADDRESS)
    module(**RIGHT, address=torch.zeros(NODES, ADDRESS))
    with pytest.raises(error) as caught:
        module(**RIGHT, **wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize(("wrong", "message"), BUILD, ids=ids(BUILD))
def test_build(wrong: dict[str, Any], message: str) -> None:
    right = {"channels": CHANNELS, "slots": SLOTS, "heads": HEADS}
    with pytest.raises(ValueError, match="SlotVirtualNode") as caught:
        SlotVirtualNode(**{**right, **wrong})
    assert str(caught.value) == message
