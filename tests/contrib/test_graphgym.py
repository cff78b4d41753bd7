"""A network of PyG's own GraphGym, with a memory after every layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

REASON = "GraphGym needs yacs: pip install 'mooring[graphgym]'"
pytest.importorskip("yacs", reason=REASON)
pytest.importorskip("lightning", reason=REASON)

from torch_geometric.graphgym.config import cfg, set_cfg
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.register import network_dict

from mooring.contrib import graphgym
from mooring.nn import SlotVirtualNode

pytestmark = pytest.mark.usefixtures("config")

CONFIG = """
dataset: {task: graph, task_type: regression}
model: {type: mooring, loss_fun: mse, graph_pooling: mean}
gnn: {head: graph, layer_type: ginconv, stage_type: STAGE, layers_pre_mp: 1, layers_mp: 3, dim_inner: 16}
mooring: {slots: 4, heads: 2, anchored: true, temperature: 0.5}
"""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Any]:
    """GraphGym's configuration, read from a file as its main.py does, and put back afterwards."""
    read("stack", tmp_path)
    yield cfg
    set_cfg(cfg)


def read(stage: str, folder: Path) -> None:
    set_cfg(cfg)
    (folder / "config.yaml").write_text(CONFIG.replace("STAGE", stage))
    cfg.merge_from_file(str(folder / "config.yaml"))
    cfg.accelerator = "cpu"


def graphs() -> Batch:
    one = Data(x=torch.randn(3, 5), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1.0]))
    two = Data(x=torch.randn(4, 5), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0.0]))
    return Batch.from_data_list([one, two])


def memories(model: torch.nn.Module) -> list[SlotVirtualNode]:
    return [module for module in model.modules() if isinstance(module, SlotVirtualNode)]


@pytest.mark.parametrize("stage", ["stack", "skipsum", "skipconcat"])
def test_a_memory_follows_every_layer_and_all_of_it_learns(stage: str, tmp_path: Path) -> None:
    read(stage, tmp_path)
    model = create_model(dim_in=5, dim_out=1)
    assert [str(memory) for memory in memories(model)] == [str(SlotVirtualNode(16, 4, 2, temperature=0.5))] * 3
    optimizer = model.configure_optimizers()[0][0]
    batch = graphs()
    losses = []
    for _ in range(30):
        loss, _ = compute_loss(*model(batch.clone()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    assert all(float(memory.write.lin_value.weight.grad.abs().max()) > 0 for memory in memories(model))


def test_it_starts_as_the_network_without_memories() -> None:
    """GraphGym sets the weights of every linear layer anew; a memory must start near the identity all the same."""
    torch.manual_seed(1)
    moored = create_model(dim_in=5, dim_out=1).eval()
    torch.manual_seed(1)
    plain = network_dict["gnn"](dim_in=5, dim_out=1).eval()
    batch = graphs()
    difference = moored(batch.clone())[0] - plain(batch.clone())[0]
    assert 0.0 < float(difference.abs().max()) < 0.05


def test_a_graph_does_not_see_its_batch_mates() -> None:
    model = create_model(dim_in=5, dim_out=1).eval()
    batch = graphs()
    alone = torch.cat([model(Batch.from_data_list([one]))[0] for one in batch.to_data_list()])
    torch.testing.assert_close(model(batch)[0], alone)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["mooring.network", "mooring"], r"mooring.network is 'mooring' .*another network"),
        (["mooring.network", "gn"], r"did you mean 'gnn'\?"),
        (["mooring.slotz", 3], r"unknown entry 'slotz'; did you mean 'slots'\?"),
    ],
)
def test_wrong_entries_are_named(entries: list[Any], message: str) -> None:
    _, name = entries[0].split(".")
    cfg.mooring[name] = entries[1]
    with pytest.raises(ValueError, match=message):
        create_model(dim_in=5, dim_out=1)


def test_a_network_that_keeps_its_layers_elsewhere() -> None:
    model = torch.nn.Module()
    with pytest.raises(ValueError, match=r"Module has none of mp, layers, gnn_layers. Set mooring.layers"):
        graphgym.follow_layers(model)
    model.body = torch.nn.Module()
    model.body.blocks = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity())
    assert len(memories(graphgym.follow_layers(model, "body.blocks", heads=2))) == 2
