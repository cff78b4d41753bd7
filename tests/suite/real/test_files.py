"""The offline format: what is in a file, and what is said of one that is missing or wrong."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from mooring import models
from mooring.suite.real.data import (
    GRAPH_SETS,
    NODE_SETS,
    MissingData,
    generated_graphs,
    generated_nodes,
    load_graphs,
    load_nodes,
    source,
)
from mooring.suite.real.data.catalogue import ATOMS, BONDS
from mooring.suite.real.data.files import load, note_of, path_of, read_graphs, read_nodes, write_set

from .conftest import graph_arrays, node_arrays  # isort: skip


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_a_set_of_graphs_comes_back_as_it_was_written(folder: Path) -> None:
    graphs, made = load_graphs("esol"), generated_graphs(40)
    for name in ("x", "edge", "edge_attr", "node_start", "edge_start", "y"):
        assert np.array_equal(getattr(graphs, name), getattr(made, name)), name
    assert {split: list(ids) for split, ids in graphs.splits.items()} == {
        split: list(ids) for split, ids in made.splits.items()
    }
    assert graphs.sha256 == GRAPH_SETS["esol"].sha256
    # Read once per process.
    assert load_graphs("esol") is graphs


def test_one_graph_comes_back_as_it_was_written(folder: Path) -> None:
    nodes = load_nodes("minesweeper")
    assert nodes.x.shape == (60, 5)
    assert nodes.num_splits == 10
    assert nodes.masks["valid"].dtype == bool
    assert not bool((nodes.masks["train"] & nodes.masks["test"]).any())


def test_every_set_says_where_it_is_from(tmp_path: Path) -> None:
    for name in (*GRAPH_SETS, *NODE_SETS):
        with pytest.raises(MissingData) as caught:
            (load_graphs if name in GRAPH_SETS else load_nodes)(name, tmp_path)
        message = str(caught.value)
        assert f"`mooring data {name}`" in message
        assert path_of(source(name)).name in message
        assert "--data-dir FOLDER" in message
        assert source(name).licence in message
        assert ("pip install 'mooring[molecules]'" in message) == source(name).loader.startswith("ogb")


def test_features_are_counted_as_the_encoders_count_them() -> None:
    assert (ATOMS, BONDS) == (models.ATOMS, models.BONDS) == ((119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2))


def test_sets_are_as_large_as_published() -> None:
    sizes = {"esol": 902, "freesolv": 513, "lipo": 3360, "bace": 1210, "hiv": 32901, "zinc": 10000, "func": 10873}
    assert {name: one.train for name, one in GRAPH_SETS.items()} == sizes
    assert {name: one.targets for name, one in GRAPH_SETS.items() if one.targets != 1} == {"func": 10}
    zinc = GRAPH_SETS["zinc"]
    assert (zinc.loader, zinc.metric, zinc.atoms, zinc.bonds) == ("pyg: ZINC", "mae", (28,), (4,))
    assert (zinc.file, zinc.sha256) == ("", "")


def test_the_hash_of_what_was_written_is_returned_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    digest = write_set(path, graph_arrays(generated_graphs(5)))
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest() == note_of(path).read_text().strip()


def test_generated_nodes_have_a_ring_and_chords() -> None:
    nodes = generated_nodes(12, seed=1)
    assert nodes.num_splits == 3
    linked = {frozenset(edge) for edge in nodes.edge.tolist()}
    assert linked == {frozenset((at, (at + step) % 12)) for at in range(12) for step in (1, 4)}
    assert all(sum(nodes.masks[split][0].astype(int) for split in nodes.masks) == 1)


def test_a_changed_byte_is_noticed(folder: Path) -> None:
    path = path_of(source("bace"), folder)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(MissingData, match=r"damaged or another version\. Delete it and type `mooring data bace`"):
        load_graphs("bace", folder)


def test_a_downloaded_file_is_checked_by_the_note_beside_it(tmp_path: Path) -> None:
    path = path_of(source("zinc"), tmp_path)
    write_set(path, graph_arrays(generated_graphs(11)))
    assert len(load_graphs("zinc", tmp_path)) == 11
    other = tmp_path / "other"
    other.mkdir()
    (other / path.name).write_bytes(path.read_bytes())
    with pytest.raises(MissingData, match=r"has no hash beside it(?s:.*)sha256 is missing\. Delete the set and type"):
        load_graphs("zinc", other)


def test_a_note_does_not_pass_for_the_published_hash(folder: Path) -> None:
    path = path_of(source("esol"), folder)
    digest = write_set(path, graph_arrays(generated_graphs(20)))
    says = f"has the hash {digest[:16]}…, as {path.name}.sha256 beside it says, but the published one is"
    with pytest.warns(UserWarning, match=says):
        assert load_graphs("esol", folder).sha256 == digest


@pytest.mark.parametrize(
    ("name", "array", "value", "words"),
    [
        ("esol", "edge", -1, "the array 'edge' does not fit 'n_nodes'"),
        ("esol", "test", 0, "in train and test, expected once at most"),
        ("esol", "y", np.nan, "has no target"),
        ("bace", "y", 7.0, "y is 7 for graph 0, expected 0, 1 or NaN"),
        ("minesweeper", "node_labels", -1, "node_labels is -1 for node 0, expected 0 or 1"),
    ],
)
def test_contents_are_checked_whatever_the_hash(folder: Path, name: str, array: str, value: float, words: str) -> None:
    arrays = node_arrays(generated_nodes(20)) if name in NODE_SETS else graph_arrays(generated_graphs(20, classes=True))
    arrays[array] = np.full(arrays[array].shape, value)
    write_set(path_of(source(name), folder), arrays)
    with pytest.warns(UserWarning, match="the published one is"), pytest.raises(MissingData, match=words):
        load(name, folder)


def test_pickles_are_refused() -> None:
    arrays = graph_arrays(generated_graphs(5))
    arrays["y"] = np.array([{"any": "object"}] * 5, dtype=object)
    with pytest.raises(MissingData, match="not an npz file of arrays"):
        read_graphs(packed(arrays), "esol")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": np.zeros((3, 9), np.uint8)}, "the array 'x' does not fit 'n_nodes'"),
        ({"n_edges": np.array([1, 2])}, "the array 'edge' does not fit 'n_edges'"),
        ({"y": np.zeros((2, 1), np.float32)}, "the array 'y' does not fit 'n_nodes'"),
        ({"train": np.array([99])}, "the array 'train' does not fit 'y'"),
        ({"valid": np.array([0, 1, 5])}, "the array 'valid' does not fit 'y'"),
        ({"test": np.array([0, -1])}, "the array 'test' does not fit 'y'"),
        ({"test": np.array([0.5])}, "'test' is float64 along 1 axes, expected whole numbers along 1"),
        ({"n_nodes": np.array([-1, 5, 5, 5, 5])}, "the array 'n_nodes' does not fit 'graphs'"),
        ({"train": np.array([0, 3]), "test": np.array([3])}, "graph 3 comes 2 times, in train and test, expected once"),
        ({"train": np.array([2, 2])}, "graph 2 comes 2 times, in train, expected once"),
        ({"valid": np.array([], np.int64)}, "valid has no graphs"),
        ({"y": np.array([[1.0], [2.0], [np.nan], [0.0], [1.0]])}, "graph 2 has no target: y is NaN there"),
        ({"y": np.array([[1.0], [2.0], [np.inf], [0.0], [1.0]])}, "y is inf for graph 2, expected a finite number"),
        ({"y": np.array([["a"], ["b"], ["c"], ["d"], ["e"]])}, "'y' is <U1 along 2 axes, expected numbers along 2"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(MissingData, match=words):
        read_graphs(packed({**graph_arrays(generated_graphs(5)), **change}), "esol")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_labels": np.zeros(3)}, "minesweeper.*the array 'node_labels' does not fit 'node_features'"),
        ({"edges": np.array([[0, 99]])}, "minesweeper.*the array 'edges' does not fit 'node_features'"),
        ({"val_masks": np.zeros((3, 4), bool)}, "minesweeper.*the array 'valid mask' does not fit 'node_features'"),
        ({"test_masks": np.zeros((5, 20), bool)}, "the array 'test mask' does not fit 'train mask'"),
        ({"test_masks": np.zeros((3, 20))}, "'test_masks' is float64 along 2 axes, expected true or false along 2"),
        ({"edges": np.array([[0, -1]])}, "the array 'edges' does not fit 'node_features'"),
        ({"edges": np.array([[0.0, 1.0]])}, "'edges' is float64 along 2 axes, expected whole numbers along 2"),
        ({"node_features": np.full((20, 5), np.nan)}, "node_features of node 0 has NaN or infinity"),
        ({"node_labels": np.array([0.0] * 19 + [np.nan])}, "node_labels is nan for node 19, expected 0 or 1"),
        ({"node_labels": np.arange(20) // 7}, "node_labels is 2 for node 14, expected 0 or 1"),
        (
            {
                "train_masks": np.ones((3, 20), bool),
                "val_masks": np.eye(3, 20, 4, bool),
                "test_masks": np.eye(3, 20) > 1,
            },
            "node 4 is in two masks of split 0, expected one at most",
        ),
    ],
)
def test_arrays_of_one_graph_that_do_not_fit_are_named(change: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(MissingData, match=words):
        read_nodes(packed({**node_arrays(generated_nodes(20)), **change}), "minesweeper")


@pytest.mark.parametrize("node", [50, -1])
def test_an_edge_out_of_its_graph_is_named(node: int) -> None:
    arrays = graph_arrays(generated_graphs(5))
    arrays["edge"] = arrays["edge"].astype(np.int64)
    arrays["edge"][0, 1] = node
    with pytest.raises(MissingData, match="'edge' does not fit 'n_nodes'"):
        read_graphs(packed(arrays), "esol")


def test_a_missing_array_is_named() -> None:
    arrays = node_arrays(generated_nodes())
    del arrays["val_masks"]
    with pytest.raises(MissingData, match="has no array 'val_masks'"):
        read_nodes(packed(arrays), "tolokers")
    with pytest.raises(MissingData, match="not an npz file"):
        read_nodes(b"no archive", "tolokers")


def test_an_unknown_set_is_suggested() -> None:
    with pytest.raises(ValueError, match="did you mean 'freesolv'"):
        source("freesolve")
