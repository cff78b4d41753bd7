"""Tiny files in the offline format."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mooring.suite.real.data import GraphSet, NodeSet, catalogue, generated_graphs, generated_nodes
from mooring.suite.real.data.files import note_of, path_of, write_set


def graph_arrays(graphs: GraphSet) -> dict[str, np.ndarray]:
    counts = {"n_nodes": np.diff(graphs.node_start), "n_edges": np.diff(graphs.edge_start)}
    features = {name: getattr(graphs, name) for name in ("x", "edge", "edge_attr", "y")}
    return {**features, **counts, **graphs.splits}


def node_arrays(nodes: NodeSet) -> dict[str, np.ndarray]:
    masks = {"train_masks": nodes.masks["train"], "val_masks": nodes.masks["valid"], "test_masks": nodes.masks["test"]}
    return {"node_features": nodes.x, "node_labels": nodes.y.astype(np.int64), "edges": nodes.edge, **masks}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a tiny esol, bace, func and minesweeper, whose hashes are those of the catalogue."""
    monkeypatch.setenv("MOORING_DATA", str(tmp_path))
    made = {
        "esol": graph_arrays(generated_graphs(40)),
        "bace": graph_arrays(generated_graphs(40, classes=True)),
        "func": graph_arrays(generated_graphs(40, 10, classes=True)),
        "minesweeper": node_arrays(generated_nodes(60, 10)),
    }
    for sets in ("GRAPH_SETS", "NODE_SETS"):
        for name, one in dict(getattr(catalogue, sets)).items():
            if name in made:
                path = path_of(one, tmp_path)
                write_set(path, made[name])
                note_of(path).unlink()
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                train = 28 if sets == "GRAPH_SETS" else one.train
                monkeypatch.setitem(getattr(catalogue, sets), name, replace(one, sha256=digest, train=train))
    return tmp_path
