"""Networks saved to a folder and loaded again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("huggingface_hub", reason="pip install 'mooring[hub]'")
pytest.importorskip("safetensors", reason="pip install 'mooring[hub]'")

from safetensors.torch import load_file, save_file

from mooring.contrib.hub import PretrainedGNN
from mooring.models import GNN
from mooring.nn import SlotVirtualNode
from support import assert_close

CONFIG = {
    "encoder": 5,
    "channels": 16,
    "out_channels": 2,
    "layers": 3,
    "conv": "GCNConv",
    "memory": {"slots": 3, "heads": 2, "temperature": 0.5},
    "memory_after": [0, 2],
    "readout": "mean+sum",
}
GRAPH = {"edge_index": torch.tensor([[0, 1, 3], [1, 2, 4]]), "batch": torch.tensor([0, 0, 0, 1, 1])}


def saved(folder: Path) -> PretrainedGNN:
    model = PretrainedGNN(**CONFIG)
    for parameter in model.parameters():  # not what a new network starts with
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def test_a_loaded_network_is_the_one_that_was_saved(tmp_path: Path) -> None:
    model = saved(tmp_path).eval()
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    again = PretrainedGNN.from_pretrained(tmp_path)
    assert isinstance(again, GNN)
    assert not again.training
    assert str(again) == str(model)
    x = torch.randn(5, 5)
    assert_close(again(x, **GRAPH), model(x, **GRAPH))
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "config.json").read_text() == (tmp_path / "config.json").read_text()


def test_atoms_and_bonds_go_by_name(tmp_path: Path) -> None:
    model = PretrainedGNN(encoder="atoms", edge_encoder="bonds", channels=8, out_channels=1, layers=1)
    model.save_pretrained(tmp_path)
    assert str(PretrainedGNN.from_pretrained(tmp_path).encoder) == str(model.encoder)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"memory": SlotVirtualNode(16)}, TypeError, "memory is SlotVirtualNode.* a file cannot hold"),
        ({"memory": 8}, TypeError, "memory is 8 but a dictionary"),
        ({"encoder": "atom"}, ValueError, "encoder is 'atom' .*did you mean 'atoms'"),
        ({"chanels": 3}, TypeError, "unexpected keyword argument 'chanels'"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(changes: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PretrainedGNN(**{**CONFIG, **changes})


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    saved(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("head.0.weight")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError, match=r"head\.0\.weight"):
        PretrainedGNN.from_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "surprise": 1}))
    with pytest.raises(TypeError, match="surprise"):
        PretrainedGNN.from_pretrained(tmp_path)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"PretrainedGNN: .*pickled weights are not read"):
        PretrainedGNN._load_as_pickle(saved(tmp_path), "pytorch_model.bin", "cpu", True)
