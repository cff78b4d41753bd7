"""Wrong input of the ready model and its parts: in the model's own name, and in the words of its arguments."""

import re
from typing import Any

import pytest
import torch
from torch import nn

from mooring.models import GNN, AtomEncoder, PositionEncoder
from mooring.nn import SlotVirtualNode

pytestmark = pytest.mark.usefixtures("as_users_run_it")

CHANNELS, FEATURES, EDGE, PLACE = 8, 5, 3, 7
X, EDGES = torch.randn(4, FEATURES), torch.tensor([[0, 1], [1, 2]])
ATTR, PE = torch.randn(2, EDGE), torch.randn(4, PLACE)
RIGHT = {"x": X, "edge_index": EDGES, "edge_attr": ATTR, "pe": PE}

CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"x": None}, TypeError, "x is None but a tensor was expected. Pass x."),
    ({"x": X.tolist()}, TypeError, "x is a list but a tensor was expected"),
    ({"x": X[0]}, ValueError, "x has shape (5,)"),
    ({"x": X[:, :3]}, ValueError, "x has width 3 but encoder=5. Build it with encoder=3 or project x first."),
    ({"x": X.double()}, TypeError, "x has dtype float64 but the module has float32"),
    ({"x": X.long()}, TypeError, "x has dtype int64 but a floating one was expected. Pass x.float()."),
    ({"x": X.to("meta")}, ValueError, "x is on meta but the module is on cpu"),
    ({"edge_attr": ATTR[:, :2]}, ValueError, "edge_attr has width 2 but edge_encoder=3"),
    ({"edge_attr": ATTR[:1]}, ValueError, "edge_attr has 1 rows but edge_index has 2 edges. Pass one row"),
    ({"edge_attr": ATTR.double()}, TypeError, "edge_attr has dtype float64"),
    ({"edge_attr": [1.0]}, TypeError, "edge_attr is a list"),
    ({"pe": PE[:, :2]}, ValueError, "pe has width 2 but position=7. Build it with position=2 or project pe first."),
    ({"pe": PE[:3]}, ValueError, "pe has 3 rows but x has 4 nodes. Pass one row for each node."),
    ({"pe": PE.double()}, TypeError, "pe has dtype float64"),
    ({"pe": 3.0}, TypeError, "pe is 3.0 but a tensor was expected"),
]


def model(**options: Any) -> GNN:
    settings = {"encoder": FEATURES, "edge_encoder": EDGE, "position": PLACE, "layers": 2, **options}
    return GNN(**settings, channels=CHANNELS, out_channels=1)


@pytest.mark.parametrize(("wrong", "error", "words"), CALLS, ids=[words[:40] for _, _, words in CALLS])
def test_what_it_cannot_be_called_with(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    net = model()
    net(**RIGHT)
    with pytest.raises(error, match=f"^GNN: {re.escape(words)}"):
        net(**{**RIGHT, **wrong})


def test_an_encoder_of_ones_own_checks_its_own_input() -> None:
    net = model(encoder=AtomEncoder(CHANNELS))
    with pytest.raises(ValueError, match=r"^AtomEncoder: x has shape"):
        net(**{**RIGHT, "x": torch.zeros(4, 2, dtype=torch.long)})
    with pytest.raises(TypeError, match=r"^GNN: x is None"):
        net(**{**RIGHT, "x": None})


@pytest.mark.parametrize(
    ("pe", "error", "words"),
    [
        (PE[:, :2], ValueError, "pe has width 2 but in_channels=7"),
        (PE.double(), TypeError, "pe has dtype float64"),
        (None, TypeError, "pe is None"),
    ],
)
def test_positions_by_themselves(pe: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^PositionEncoder: {words}"):
        PositionEncoder(PLACE, CHANNELS)(pe)


MEMORY = SlotVirtualNode(CHANNELS, 3)
BUILDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"readout": "max"}, ValueError, "readout is 'max' but 'mean', 'sum', 'mean+sum', 'slots' or an aggregation"),
    ({"readout": 3}, ValueError, "readout is 3 but"),
    ({"conv": "GCN"}, ValueError, "conv is 'GCN' but 'GINEConv'"),
    ({"conv": ""}, ValueError, "conv is '' but 'GINEConv'"),
    ({"conv": 3}, TypeError, "conv is 3 but a name or a function of the width was expected"),
    ({"norm": "bacth"}, ValueError, "norm is 'bacth' but 'batch', 'layer' or None was expected"),
    ({"position": "8"}, TypeError, "position is '8' but a whole number was expected"),
    ({"position": 0}, ValueError, "position is 0 but at least 1 was expected"),
    ({"position": 2.0}, TypeError, "position is 2.0"),
    ({"carry": True}, ValueError, "carry=True has no effect without a memory. Leave it out, or pass memory."),
    ({"carry": True, "memory": lambda width: None}, ValueError, "carry=True has no effect without a memory"),
    ({"memory_after": [0]}, ValueError, "memory_after has no effect without a memory"),
    ({"memory": lambda width: 3}, TypeError, "memory(8) returned 3 but a module or None was expected"),
]


@pytest.mark.parametrize(("wrong", "error", "words"), BUILDS, ids=[words[:40] for _, _, words in BUILDS])
def test_what_it_cannot_be_built_with(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^GNN: {re.escape(words)}"):
        model(**wrong)


def test_what_has_an_effect_with_a_memory() -> None:
    net = model(memory=MEMORY, carry=True, memory_after=[0, 1])
    assert net.carry
    assert list(net.memory) == ["0", "1"]
    assert isinstance(model(position=nn.Linear(PLACE, CHANNELS)).position, nn.Linear)
