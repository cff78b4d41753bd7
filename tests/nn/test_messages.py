"""Messages for invalid inputs."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from mooring import nn as mnn
from mooring.nn import SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from mooring.nn.virtual_node import POOLS
from mooring.ops import SlotState
from support import assert_close

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NODES = 5
RIGHT = {"x": torch.zeros(NODES, CHANNELS), "batch": torch.tensor([0, 0, 1, 1, 1])}
NAN = torch.tensor([1.0, 0.0, float("nan"), 1.0, 1.0])

META = {"dtype": torch.long, "device": "meta"}
FORWARD: list[tuple[dict[str, Any], type[Exception], str, str]] = [
    ({"x": torch.zeros(NODES, 7)}, ValueError, "x has width 7 but channels=10", "Build it with channels=7"),
    ({"x": torch.zeros(CHANNELS)}, ValueError, "x has shape (10,)", "[nodes, channels] was expected"),
    ({"x": RIGHT["x"].long()}, TypeError, "x has dtype int64", "Pass x.float()"),
    ({"x": RIGHT["x"].double()}, TypeError, "x has dtype float64 but the module has float32", "module.to(x.dtype)"),
    ({"x": RIGHT["x"].to("meta")}, ValueError, "x is on meta but the module is on cpu", "module.to(x.device)"),
    ({"batch": torch.zeros(NODES, **META)}, ValueError, "batch is on meta but x is on cpu", "batch.to(x.device)"),
    ({"batch": torch.zeros(NODES)}, TypeError, "batch has dtype float32", "Pass batch.long()"),
    ({"batch": torch.zeros(7, dtype=torch.long)}, ValueError, "batch has shape (7,)", "x has 5 nodes"),
    ({"num_graphs": 1}, ValueError, "ids from 0 to 1 but num_graphs=1", "raise num_graphs to 2"),
    ({"batch": RIGHT["batch"] - 1}, ValueError, "ids from -1 to 0 but num_graphs=1", "Number the graphs from 0"),
    ({"sources": NAN}, TypeError, "sources has dtype float32", "a node mask is boolean"),
    ({"targets": torch.ones(3, dtype=torch.bool)}, ValueError, "targets has shape (3,)", "x has 5 nodes"),
    ({"log_weight": NAN}, ValueError, "log_weight is nan at node 2", "-inf to leave a node out"),
    ({"address": torch.zeros(NODES, ADDRESS)}, ValueError, "got an address", "Build it with address_channels=7"),
]
ADDRESSED: list[tuple[dict[str, Any], type[Exception], str, str]] = [
    ({}, ValueError, "routes by address (address_channels=7) but got none", "Pass address=[nodes, address_channels]"),
    ({"address": torch.zeros(NODES, 11)}, ValueError, "address has width 11", "Build it with address_channels=11"),
    ({"address": torch.zeros(3, ADDRESS)}, ValueError, "address has 3 rows", "x has 5 nodes"),
    ({"address": torch.zeros(NODES, ADDRESS).long()}, TypeError, "address has dtype int64", "Pass address.float()"),
    ({"address": torch.zeros(NODES, ADDRESS, device="meta")}, ValueError, "address is on meta", "address.to(x.device)"),
]


def refused(module: nn.Module, wrong: dict[str, Any], error: type[Exception], *words: str) -> None:
    """Check that a call fails with a message that names the module, has the words and ends with a remedy."""
    with pytest.raises(error) as caught:
        module(**{**RIGHT, **wrong})
    message = str(caught.value)
    assert message.startswith(f"{type(module).__name__}: ")
    assert [word for word in words if word not in message] == [], message
    assert re.search(r"\. [A-Z].+\.$", message), message


@pytest.mark.parametrize(("wrong", "error", "got", "hint"), FORWARD, ids=[case[2] for case in FORWARD])
def test_forward(wrong: dict[str, Any], error: type[Exception], got: str, hint: str) -> None:
    for module in (SlotVirtualNode(CHANNELS, SLOTS, HEADS), VirtualNode(CHANNELS)):
        module(**RIGHT)
        if "address" not in wrong or isinstance(module, SlotVirtualNode):  # VirtualNode has no use for an address
            refused(module, wrong, error, got, hint)


@pytest.mark.parametrize(("wrong", "error", "got", "hint"), ADDRESSED, ids=[case[2] for case in ADDRESSED])
def test_forward_with_addresses(wrong: dict[str, Any], error: type[Exception], got: str, hint: str) -> None:
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS, address_channels=ADDRESS)
    module(**RIGHT, address=torch.zeros(NODES, ADDRESS))
    refused(module, wrong, error, got, hint)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    three = np.int64(SLOTS)
    module = SlotVirtualNode(CHANNELS, three, HEADS)  # type: ignore[arg-type]
    assert_close(module(**RIGHT, num_graphs=np.int64(2)), module(**RIGHT, num_graphs=2))
    with pytest.raises(ValueError, match="num_graphs=1"):
        module(**RIGHT, num_graphs=np.int32(1))


SIZES: dict[str, Any] = {"channels": CHANNELS, "slots": SLOTS, "heads": HEADS}
STATE = SlotState(torch.zeros(2, SLOTS, HEADS, CHANNELS // HEADS), torch.zeros(2, SLOTS, HEADS))
MEMORY = torch.zeros(2, SLOTS, CHANNELS)
PTR = torch.tensor([0, 2, 5])
X, IDS = RIGHT["x"], RIGHT["batch"]
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SlotVirtualNode": (lambda: SlotVirtualNode(**SIZES), RIGHT),
    "VirtualNode": (lambda: VirtualNode(CHANNELS), RIGHT),
    "SlotConv": (
        lambda: SlotConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), SLOTS, HEADS),
        {**RIGHT, "edge_index": torch.tensor([[0, 1], [1, 0]])},
    ),
    "SlotWrite": (lambda: mnn.SlotWrite(**SIZES), RIGHT),
    "SlotRead": (lambda: mnn.SlotRead(**SIZES), {**RIGHT, "memory": MEMORY}),
    "SlotUpdate": (lambda: mnn.SlotUpdate(**SIZES), {"state": STATE}),
    "SlotFiLM": (lambda: mnn.SlotFiLM(CHANNELS), {"x": X, "context": X, "memory": MEMORY, "batch": IDS}),
    "ResidualAdd": (lambda: mnn.ResidualAdd(CHANNELS), {"x": X, "context": X, "memory": MEMORY, "batch": IDS}),
    "GlobalFiLM": (lambda: mnn.GlobalFiLM(CHANNELS, SLOTS), {"x": X, "context": None, "memory": MEMORY, "batch": IDS}),
    "SlotAggregation": (lambda: SlotAggregation(**SIZES), {"x": X, "index": IDS}),
}
ROUTED = ("SlotVirtualNode", "VirtualNode", "SlotConv", "SlotWrite", "SlotRead")
MASKED = ("SlotVirtualNode", "VirtualNode", "SlotWrite")
WEIGHTED = ("SlotVirtualNode", "SlotWrite")
COUNTED = ("SlotVirtualNode", "VirtualNode", "SlotWrite")
BAD_CALLS: list[tuple[str, dict[str, Any], type[Exception], list[str]]] = [
    *((name, {"x": [[0.0]]}, TypeError, ["x is a list", "tensor"]) for name in CALLS if name != "SlotUpdate"),
    *((name, {"x": None}, TypeError, ["x is None", "tensor"]) for name in CALLS if name != "SlotUpdate"),
    *((name, {"x": X[:, :7]}, ValueError, ["x has width 7", "channels=10"]) for name in CALLS if name != "SlotUpdate"),
    *(
        (name, {"x": X.double()}, TypeError, ["x has dtype float64", "float32"])
        for name in (*ROUTED, "SlotAggregation")
    ),
    *(
        (name, {"batch": IDS.numpy()}, TypeError, ["batch is a numpy.ndarray", "torch.as_tensor(batch)"])
        for name in ROUTED
    ),
    *((name, {"batch": IDS.tolist()}, TypeError, ["batch is a list"]) for name in ROUTED),
    *((name, {"batch": IDS.byte()}, TypeError, ["batch has dtype uint8", "int64", "batch.long()"]) for name in ROUTED),
    *((name, {"batch": IDS[:3]}, ValueError, ["batch has shape (3,)", "x has 5 nodes"]) for name in ROUTED),
    *((name, {"sources": [True] * 5}, TypeError, ["sources is a list"]) for name in MASKED),
    *((name, {"log_weight": [0.0] * 5}, TypeError, ["log_weight is a list"]) for name in MASKED),
    *((name, {"num_graphs": 3.0}, TypeError, ["num_graphs is 3.0", "int(num_graphs)"]) for name in COUNTED),
    *((name, {"num_graphs": True}, TypeError, ["num_graphs is True", "whole number"]) for name in COUNTED),
    *((name, {"num_graphs": torch.tensor(3)}, TypeError, ["num_graphs is a torch.Tensor", "int("]) for name in COUNTED),
    *((name, {"num_graphs": -1}, ValueError, ["num_graphs is -1"]) for name in COUNTED),
    *(
        (
            name,
            {"log_weight": torch.zeros(shape)},
            ValueError,
            [f"{shape}", "[nodes, slots, heads] = [5, 3, 2]", "axis"],
        )
        for name in WEIGHTED
        for shape in ((NODES, SLOTS), (NODES, 1), (NODES, SLOTS, HEADS, 1), (NODES, 7, HEADS))
    ),
    *(
        ("SlotWrite", {"slots": slots}, error, [f"slots {words}"])
        for slots, error, words in (
            (MEMORY[:, :2], ValueError, "has shape (2, 2, 10) but [graphs, slots, channels] = [2, 3, 10]"),
            (MEMORY[:1], ValueError, "has shape (1, 3, 10)"),
            (MEMORY[0, 0], ValueError, "has shape (10,)"),
            (MEMORY.double(), TypeError, "has dtype float64 but x has float32"),
            (MEMORY.tolist(), TypeError, "is a list"),
        )
    ),
    ("SlotConv", {"memory_kwargs": 3}, TypeError, ["memory_kwargs is 3", "dictionary"]),
    ("SlotConv", {"memory_kwargs": {"sources": [True] * 5}}, TypeError, ["sources is a list"]),
    ("SlotRead", {"targets": [True] * 5}, TypeError, ["targets is a list"]),
    ("SlotRead", {"memory": None}, TypeError, ["memory is None"]),
    ("SlotRead", {"memory": MEMORY.double()}, TypeError, ["memory has dtype float64 but x has float32"]),
    ("SlotRead", {"memory": MEMORY[0]}, ValueError, ["memory has shape (3, 10)"]),
    ("SlotRead", {"memory": MEMORY[:, :2]}, ValueError, ["memory has 2 slots", "slots=3"]),
    ("SlotUpdate", {"state": [0.0]}, TypeError, ["state is a list", "SlotState"]),
    ("SlotUpdate", {"state": None}, TypeError, ["state is None", "SlotState"]),
    ("SlotUpdate", {"state": SlotState(*(s[:, :2] for s in STATE))}, ValueError, ["(2, 2, 2, 5)", "(3, 2, 5)"]),
    ("SlotUpdate", {"state": SlotState(*(s.long() for s in STATE))}, TypeError, ["state.content has dtype int64"]),
    ("SlotUpdate", {"state": SlotState(STATE.content, None)}, TypeError, ["state.log_mass is None"]),
    ("GlobalFiLM", {"memory": MEMORY[0]}, ValueError, ["memory has shape (3, 10)"]),
    ("SlotFiLM", {"context": X[:, :3]}, ValueError, ["context has shape (5, 3)", "(5, 10)"]),
    ("ResidualAdd", {"context": None}, TypeError, ["context is None"]),
    ("SlotAggregation", {"index": IDS.numpy()}, TypeError, ["index is a numpy.ndarray"]),
    ("SlotAggregation", {"index": None, "ptr": [0, 2, 5]}, TypeError, ["ptr is a list"]),
    ("SlotAggregation", {"index": None, "ptr": PTR + 1}, ValueError, ["ptr runs from 1 to 6", "0 to 5"]),
    ("SlotAggregation", {"index": None, "ptr": PTR[:2]}, ValueError, ["ptr runs from 0 to 2", "0 to 5"]),
    ("SlotAggregation", {"index": None, "ptr": torch.tensor([0, 4, 2, 5])}, ValueError, ["ptr falls from 4 to 2"]),
    ("SlotAggregation", {"index": None, "ptr": PTR.float()}, TypeError, ["ptr has dtype float32"]),
    ("SlotAggregation", {"index": None, "ptr": PTR.unsqueeze(0)}, ValueError, ["ptr has shape (1, 3)"]),
    ("SlotAggregation", {"index": None, "ptr": PTR[:0]}, ValueError, ["ptr has shape (0,)"]),
    ("SlotAggregation", {"dim_size": 3.0}, TypeError, ["dim_size is 3.0"]),
]


@pytest.mark.parametrize(
    ("module", "wrong", "error", "words"), BAD_CALLS, ids=[f"{c[0]}-{next(iter(c[1]))}-{c[3][0]}" for c in BAD_CALLS]
)
def test_invalid_calls_raise(module: str, wrong: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    make, right = CALLS[module]
    make()(**right)
    with pytest.raises(error) as caught:
        make()(**{**right, **wrong})
    assert type(caught.value) is error
    message = str(caught.value)
    assert message.startswith(f"{module}: "), message
    for word in words:
        assert word in message


@pytest.mark.parametrize("module", [*ROUTED, "GlobalFiLM", "SlotAggregation"])
def test_graph_ids_may_be_int32(module: str) -> None:
    make, right = CALLS[module]
    built = make().double().eval()
    generous = {
        key: torch.randn(tensor.shape).double()
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
        else tensor
        for key, tensor in right.items()
    }
    ids = "index" if module == "SlotAggregation" else "batch"
    expected, actual = built(**generous), built(**{**generous, ids: IDS.int()})
    for one, other in zip(actual, expected, strict=True) if isinstance(actual, tuple) else [(actual, expected)]:
        assert torch.equal(one, other)


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_takes_int32(pool: Any) -> None:
    module = VirtualNode(CHANNELS, pool=pool)
    assert torch.equal(module(X, IDS.int(), sources=IDS == 1), module(X, IDS, sources=IDS == 1))
