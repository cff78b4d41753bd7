"""SlotMemory: repr, saving and loading."""

import subprocess
import sys
from pathlib import Path

import torch

from mooring.nn import SlotMemory, SlotVirtualNode
from mooring.ops import SlotState

CHANNELS, SLOTS, HEADS = 12, 5, 2


def memory() -> SlotMemory:
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    return module(torch.randn(7, CHANNELS), torch.tensor([0, 0, 2, 2, 2, 0, 0]), return_state=True)[1]


def test_it_prints_shapes() -> None:
    inside = memory()
    assert repr(inside) == "SlotMemory(3 graphs, 5 slots, 12 channels)"
    assert f"{[inside]}" == f"[{inside!r}]"


def test_everything_of_a_graph_goes_to_its_row_and_weights_stay_with_the_nodes() -> None:
    inside = memory()
    rows = torch.tensor([2, 0, 0, 1])
    spread = inside.of_graphs(lambda tensor: tensor[rows])
    for one, other in zip((*spread.state, *spread[1:3]), (*inside.state, *inside[1:3]), strict=True):
        assert torch.equal(one, other[rows])
    assert torch.equal(spread.write_weights, inside.write_weights)
    assert torch.equal(spread.read_weights, inside.read_weights)
    assert inside._replace(anchor_weight=None).of_graphs(lambda tensor: tensor[rows]).anchor_weight is None


def test_it_is_loaded_without_trust(tmp_path: Path) -> None:
    saved = memory()
    torch.save({"memory": saved, "none": saved._replace(read_weights=None)}, tmp_path / "memory.pt")
    loaded = torch.load(tmp_path / "memory.pt", weights_only=True)
    assert type(loaded["memory"]) is SlotMemory
    assert type(loaded["memory"].state) is SlotState
    assert loaded["none"].read_weights is None
    torch.testing.assert_close(loaded["memory"], saved)


def test_without_mooring_torch_raises_a_clear_error(tmp_path: Path) -> None:
    torch.save(memory(), tmp_path / "memory.pt")
    code = f"import torch; torch.load({str(tmp_path / 'memory.pt')!r}, weights_only=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "mooring.nn.memory.SlotMemory was not an allowed global" in done.stderr
