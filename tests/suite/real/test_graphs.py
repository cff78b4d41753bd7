"""Batches of packed graphs against PyG's own, encodings, and conversion from PyG."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from mooring.suite.real.data import MissingData, collate, generated_graphs, generated_nodes, online
from mooring.suite.real.data.files import load_graphs, load_nodes
from mooring.suite.real.data.graphs import GraphSet, encoded
from mooring.suite.real.data.online import fetch, from_graphs, from_nodes

from .conftest import graph_arrays, node_arrays  # isort: skip

GRAPHS = generated_graphs(23, 2)


def as_data(number: int) -> Data:
    nodes = slice(*GRAPHS.node_start[number : number + 2])
    edges = slice(*GRAPHS.edge_start[number : number + 2])
    once = torch.from_numpy(GRAPHS.edge[edges].astype(np.int64).T)
    attr = torch.from_numpy(GRAPHS.edge_attr[edges].astype(np.int64))
    return Data(
        x=torch.from_numpy(GRAPHS.x[nodes].astype(np.int64)),
        edge_index=torch.cat([once, once.flip(0)], dim=1),
        edge_attr=torch.cat([attr, attr]),
        y=torch.from_numpy(GRAPHS.y[number : number + 1]),
    )


def edges(edge_index: torch.Tensor, edge_attr: torch.Tensor) -> list[tuple[int, ...]]:
    return sorted(map(tuple, torch.cat([edge_index.T, edge_attr], dim=1).tolist()))


def test_batches_are_those_of_pyg() -> None:
    chosen = np.array([5, 2, 17, 2])
    ours, theirs = collate(GRAPHS, chosen), Batch.from_data_list([as_data(number) for number in chosen])
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.batch, theirs.batch)
    assert torch.equal(ours.ptr, theirs.ptr)
    assert torch.equal(ours.y.nan_to_num(-1), theirs.y.nan_to_num(-1))
    assert edges(ours.edge_index, ours.edge_attr) == edges(theirs.edge_index, theirs.edge_attr)


@pytest.mark.parametrize("encoding", ["walk", "laplacian"])
def test_encodings_are_those_of_pyg_for_each_graph(encoding: str) -> None:
    graphs = encoded(GRAPHS, encoding, 6)  # type: ignore[arg-type]
    assert encoded(GRAPHS, "none", 6) is GRAPHS
    assert encoded(GRAPHS, encoding, 6) is graphs  # type: ignore[arg-type]
    assert graphs.pe is not None
    batch = collate(graphs, np.array([3, 4]))
    for place, number in enumerate((3, 4)):
        own = batch.pe[batch.batch == place]  # type: ignore[index]
        if encoding == "walk":
            assert torch.allclose(own, AddRandomWalkPE(6, attr_name="pe")(as_data(number)).pe)
        else:
            # Orthonormal columns, those that a small graph does not have at zero.
            there = min(6, len(own) - 1)
            assert torch.allclose((own.T @ own)[:there, :there], torch.eye(there), atol=1e-4)
            assert not bool(own[:, there:].any())


def test_atoms_without_a_bond_have_no_encoding() -> None:
    start, bonds = np.array([0, 2, 4]), np.array([0, 0, 1])
    features = np.zeros((4, 9), np.uint8), np.array([[0, 1]], np.uint16), np.zeros((1, 3), np.uint8)
    graphs = encoded(GraphSet("pairs", *features, start, bonds, np.zeros((2, 1), np.float32), {}), "laplacian", 4)
    assert graphs.pe is not None
    assert not graphs.pe[:2].any()
    assert graphs.pe[2:].any()


def test_pyg_graphs_and_back() -> None:
    arrays = from_graphs((as_data(number) for number in range(23)), GRAPHS.splits)
    for name, array in graph_arrays(GRAPHS).items():
        if name in ("edge", "edge_attr"):
            continue
        assert np.array_equal(arrays[name], array, equal_nan=name == "y"), name
    assert sorted(map(tuple, np.sort(arrays["edge"]))) == sorted(map(tuple, np.sort(GRAPHS.edge)))
    with pytest.raises(MissingData, match="one direction only"):
        from_graphs([Data(x=torch.zeros(2, 9), edge_index=torch.tensor([[0], [1]]))], {})


def test_one_pyg_graph_and_back() -> None:
    nodes = generated_nodes(30, 4)
    once = torch.from_numpy(nodes.edge.T.copy())
    masks = {
        f"{name}_mask": torch.from_numpy(nodes.masks[split].T)
        for name, split in (("train", "train"), ("val", "valid"), ("test", "test"))
    }
    graph = Data(
        x=torch.from_numpy(nodes.x),
        y=torch.from_numpy(nodes.y).long(),
        edge_index=torch.cat([once, once.flip(0)], dim=1),
        **masks,
    )
    found = from_nodes(graph)
    for name, array in node_arrays(nodes).items():
        if name != "edges":
            assert np.array_equal(found[name], array), name
    assert {tuple(edge) for edge in found["edges"]} == {tuple(sorted(edge)) for edge in nodes.edge.tolist()}


def test_a_download_ends_in_a_file_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": range(16), "val": range(16, 19), "test": range(19, 23)}

    def labelled(number: int) -> Data:
        data = as_data(number)
        return data.update({"y": (data.y > 1).float()})

    made = SimpleNamespace(
        LRGBDataset=lambda root, name, split: [labelled(number) for number in parts[split]],
        HeterophilousGraphDataset=lambda root, name: (_ for _ in ()).throw(OSError("no route")),
    )
    monkeypatch.setattr("torch_geometric.datasets", made, raising=False)
    monkeypatch.setattr("torch_geometric.datasets.LRGBDataset", made.LRGBDataset, raising=False)
    path = fetch("func", tmp_path)
    with pytest.warns(UserWarning, match="but the published one is b3e50ecffdd81aaa"):
        graphs = load_graphs("func", tmp_path)
    assert path.name == "peptides_func.npz"
    assert {split: len(ids) for split, ids in graphs.splits.items()} == {"train": 16, "valid": 3, "test": 4}
    with pytest.raises(MissingData, match=r"could not be downloaded \(no route\)"):
        fetch("tolokers", tmp_path)
    with pytest.raises(MissingData, match="is not at"):
        load_nodes("tolokers", tmp_path)


def test_zinc_is_the_subset_of_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def made(root: str, subset: bool, split: str) -> list[Data]:
        asked.append((Path(root).name, subset, split))
        return [as_data(number) for number in range(3)]

    monkeypatch.setattr("torch_geometric.datasets.ZINC", made)
    fetch("zinc", tmp_path)
    assert asked == [("ZINC", True, "train"), ("ZINC", True, "val"), ("ZINC", True, "test")]
    assert len(load_graphs("zinc", tmp_path)) == 9


def test_ogb_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'mooring\[molecules\]'"):
        fetch("esol", tmp_path)
