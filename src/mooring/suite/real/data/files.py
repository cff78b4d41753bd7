"""The offline format: one npz file per set, arrays only, checked by its hash and read without pickle.

A file of graphs holds ``x``, ``edge``, ``edge_attr``, ``n_nodes``, ``n_edges``, ``y``, ``train``, ``valid``, ``test``;
a file of one graph ``node_features``, ``node_labels``, ``edges``, ``train_masks``, ``val_masks``, ``test_masks``. The
largest is 30 MB once unpacked, so nothing is gained by mapping it into memory.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mooring.suite.files import write_atomic
from mooring.suite.real.data.catalogue import Source, source
from mooring.suite.real.data.packed import SPLITS, GraphSet, NodeSet

VARIABLE = "MOORING_DATA"
DEFAULT = Path("data")
GRAPHS = ("x", "edge", "edge_attr", "n_nodes", "n_edges", "y", *SPLITS)
NODES = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


class MissingData(OSError):
    """A set that is not in the data folder, or a file there that is not what it should be."""


def data_folder() -> Path:
    """Where the files lie: the environment's ``MOORING_DATA``, which ``--data-dir`` sets, or ``data``."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def path_of(set_: Source, folder: Path | None = None) -> Path:
    """Where a set's file should be."""
    return (folder or data_folder()) / (set_.file or f"{set_.name}.npz")


def load_graphs(name: str, folder: Path | None = None) -> GraphSet:
    """The set of graphs of this name, from its file, once per process.

    Args:
        name: e.g. ``esol``.
        folder: where to look; :func:`data_folder` if None.
    """
    return _graphs(name, folder or data_folder())


def load_nodes(name: str, folder: Path | None = None) -> NodeSet:
    """The same for one graph with labelled nodes."""
    return _nodes(name, folder or data_folder())


@lru_cache(maxsize=4)
def _graphs(name: str, folder: Path) -> GraphSet:
    data, digest = checked(source(name), folder)
    return read_graphs(data, name, digest)


@lru_cache(maxsize=4)
def _nodes(name: str, folder: Path) -> NodeSet:
    data, digest = checked(source(name), folder)
    return read_nodes(data, name, digest)


def require(name: str, folder: Path | None = None) -> Path:
    """The file of a set; MissingData says where to get it if it is not there."""
    path = path_of(source(name), folder)
    if not path.is_file():
        raise MissingData(missing(source(name), path))
    return path


def checked(set_: Source, folder: Path) -> tuple[bytes, str]:
    """A set's file and its hash, which must be the published one, or the one noted when it was downloaded."""
    path = require(set_.name, folder)
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    noted = note_of(path)
    known = {set_.sha256, noted.read_text().strip()} if noted.is_file() else {set_.sha256}
    if not any(known):
        raise MissingData(
            f"data: {path} has no hash beside it, so it may be damaged or another version: {noted.name} is missing. "
            f"Delete the set and type `mooring data {set_.name}`."
        )
    if digest not in known:
        raise MissingData(
            f"data: {path} has the hash {digest[:16]}…, expected {' or '.join(one[:16] for one in known if one)}…: it "
            f"is damaged or another version. Delete it and type `mooring data {set_.name}`."
        )
    return data, digest


def note_of(path: Path) -> Path:
    """The file beside a downloaded set that holds its hash."""
    return path.with_name(path.name + ".sha256")


def missing(set_: Source, path: Path) -> str:
    """What to say of a set that is not there."""
    package, _, what = set_.loader.partition(": ")
    publisher = {"ogb": "the Open Graph Benchmark", "pyg": "PyTorch Geometric's"}[package]
    needs = " (needs `pip install 'mooring[molecules]'`)" if package == "ogb" else ""
    return (
        f"data: {set_.name} ({set_.title}) is not at {path}. It is {what} of {publisher}, licence {set_.licence}. "
        f"Online, type `mooring data {set_.name}`{needs}; or name the folder that has {path.name} with --data-dir "
        f"FOLDER or {VARIABLE}=FOLDER."
    )


def read_graphs(data: bytes, name: str, sha256: str = "") -> GraphSet:
    """A set of graphs from the bytes of its file."""
    found = _arrays(data, name, GRAPHS)
    graphs = GraphSet(
        name=name,
        x=found["x"],
        edge=found["edge"],
        edge_attr=found["edge_attr"],
        node_start=_starts(found["n_nodes"]),
        edge_start=_starts(found["n_edges"]),
        y=found["y"].astype(np.float32),
        splits={split: found[split].astype(np.int64) for split in SPLITS},
        sha256=sha256,
    )
    _require(name, "x", len(graphs.x) == graphs.node_start[-1], "n_nodes")
    _require(name, "edge", len(graphs.edge) == len(graphs.edge_attr) == graphs.edge_start[-1], "n_edges")
    _require(name, "y", len(graphs.y) == len(graphs.node_start) - 1 == len(graphs.edge_start) - 1, "n_nodes")
    owner = np.repeat(np.arange(len(graphs)), np.diff(graphs.edge_start))
    inside = graphs.edge < np.diff(graphs.node_start)[owner, None]
    _require(name, "edge", bool(inside.all()), "n_nodes")
    for split, chosen in graphs.splits.items():
        _require(name, split, bool(((chosen >= 0) & (chosen < len(graphs))).all()), "y")
    return graphs


def read_nodes(data: bytes, name: str, sha256: str = "") -> NodeSet:
    """One graph with labelled nodes from the bytes of its file."""
    found = _arrays(data, name, NODES)
    x, edge = found["node_features"].astype(np.float32), found["edges"].astype(np.int64)
    masks: dict[str, NDArray] = {split: found[f"{'val' if split == 'valid' else split}_masks"] for split in SPLITS}
    _require(name, "node_labels", found["node_labels"].shape == x.shape[:1], "node_features")
    _require(name, "edges", bool(((edge >= 0) & (edge < len(x))).all()), "node_features")
    for split, mask in masks.items():
        _require(name, f"{split} mask", mask.dtype == bool and mask.shape[1:] == x.shape[:1], "node_features")
    return NodeSet(name, x, edge, found["node_labels"].astype(np.float32), masks, sha256)


def write_set(path: Path, arrays: dict[str, NDArray]) -> str:
    """Write a file in the format, with a note of its hash beside it; returns the hash."""
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    write_atomic(path, data)
    write_atomic(note_of(path), digest + "\n")
    return digest


def _arrays(data: bytes, name: str, wanted: tuple[str, ...]) -> dict[str, NDArray]:
    try:
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            absent = [array for array in wanted if array not in stored.files]
            if absent:
                raise MissingData(f"data: {name} has no array {absent[0]!r}; it has {', '.join(stored.files)}.")
            return {array: stored[array] for array in wanted}
    except (ValueError, zipfile.BadZipFile) as error:
        raise MissingData(f"data: {name} is not an npz file of arrays: {error}.") from error


def _starts(counts: NDArray) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts.astype(np.int64))])


def _require(name: str, array: str, holds: bool, other: str) -> None:
    if not holds:
        raise MissingData(
            f"data: {name}: the array {array!r} does not fit {other!r}. Delete the file and get it again."
        )
