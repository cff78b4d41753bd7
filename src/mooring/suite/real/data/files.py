"""Offline format: one npz file of arrays per set, checked by its hash and read without pickle.

A file of graphs contains ``x``, ``edge``, ``edge_attr``, ``n_nodes``, ``n_edges``, ``y``, ``train``, ``valid``,
``test``; a file of one graph ``node_features``, ``node_labels``, ``edges``, ``train_masks``, ``val_masks``,
``test_masks``. The largest is 30 MB unpacked, so memory mapping would gain nothing.
"""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mooring.suite.files import write_atomic
from mooring.suite.real.data.catalogue import NODE_SETS, RISING, Source, source
from mooring.suite.real.data.graphs import SPLITS, GraphSet, NodeSet

VARIABLE = "MOORING_DATA"
DEFAULT = Path("data")
GRAPHS = ("x", "edge", "edge_attr", "n_nodes", "n_edges", "y", *SPLITS)
NODES = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


class MissingData(OSError):
    """Error of a set that is missing from the data folder, or whose file is invalid."""


def data_folder() -> Path:
    """Return the data folder: ``MOORING_DATA`` of the environment, which ``--data-dir`` sets, or ``data``."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def path_of(set_: Source, folder: Path | None = None) -> Path:
    """Return the path of a set's file."""
    return (folder or data_folder()) / (set_.file or f"{set_.name}.npz")


def load_graphs(name: str, folder: Path | None = None) -> GraphSet:
    """Load the set of graphs of this name, e.g. ``esol``, from its file in :func:`data_folder`, once per process."""
    return _graphs(name, folder or data_folder())


def load_nodes(name: str, folder: Path | None = None) -> NodeSet:
    """Load one graph with labelled nodes from its file, once per process."""
    return _nodes(name, folder or data_folder())


def load(name: str, folder: Path | None = None) -> GraphSet | NodeSet:
    """Load the set of this name, of either kind."""
    return load_nodes(name, folder) if name in NODE_SETS else load_graphs(name, folder)


@lru_cache(maxsize=4)
def _graphs(name: str, folder: Path) -> GraphSet:
    data, digest = checked(source(name), folder)
    return read_graphs(data, name, digest, classes=source(name).metric in RISING)


@lru_cache(maxsize=4)
def _nodes(name: str, folder: Path) -> NodeSet:
    data, digest = checked(source(name), folder)
    return read_nodes(data, name, digest)


def require(name: str, folder: Path | None = None) -> Path:
    """Return the file of a set; raise MissingData with its source if it is missing."""
    path = path_of(source(name), folder)
    if not path.is_file():
        raise MissingData(missing_message(source(name), path))
    return path


def checked(set_: Source, folder: Path) -> tuple[bytes, str]:
    """Return a set's file and its hash, which must be the published hash or the one noted at its download.

    If only the noted hash matches although there is a published one, the file is used with a warning.
    """
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
        expected = " or ".join(sha256[:16] for sha256 in known if sha256)
        raise MissingData(
            f"data: {path} has the hash {digest[:16]}…, expected {expected}…: it "
            f"is damaged or another version. Delete it and type `mooring data {set_.name}`."
        )
    if set_.sha256 and digest != set_.sha256:
        warnings.warn(
            f"data: {path} has the hash {digest[:16]}…, as {noted.name} beside it says, but the published one is "
            f"{set_.sha256[:16]}…. It may differ from the published set: compare its results with care.",
            stacklevel=2,
        )
    return data, digest


def note_of(path: Path) -> Path:
    """Return the path of the hash file beside a downloaded set."""
    return path.with_name(path.name + ".sha256")


def missing_message(set_: Source, path: Path) -> str:
    """Return the error message of a missing set."""
    package, _, what = set_.loader.partition(": ")
    publisher = {"ogb": "the Open Graph Benchmark", "pyg": "PyTorch Geometric's"}[package]
    needs = " (needs `pip install 'mooring[molecules]'`)" if package == "ogb" else ""
    return (
        f"data: {set_.name} ({set_.title}) is not at {path}. It is {what} of {publisher}, licence {set_.licence}. "
        f"Online, type `mooring data {set_.name}`{needs}; or name the folder that has {path.name} with --data-dir "
        f"FOLDER or {VARIABLE}=FOLDER."
    )


def read_graphs(data: bytes, name: str, sha256: str = "", *, classes: bool = False) -> GraphSet:
    """Parse a set of graphs from the bytes of its file, and check its contents; ``classes`` are targets of 0 and 1."""
    arrays = _arrays(data, name, GRAPHS)
    for array in GRAPHS:
        axes = 2 if array in ("x", "edge", "edge_attr", "y") else 1
        _require_kind(name, array, arrays[array], axes, "iuf" if array == "y" else "iu")
    graphs = GraphSet(
        name=name,
        x=arrays["x"],
        edge=arrays["edge"],
        edge_attr=arrays["edge_attr"],
        node_start=_starts(arrays["n_nodes"]),
        edge_start=_starts(arrays["n_edges"]),
        y=arrays["y"].astype(np.float32),
        splits={split: arrays[split].astype(np.int64) for split in SPLITS},
        sha256=sha256,
    )
    for array in ("n_nodes", "n_edges"):
        _require(name, array, bool((arrays[array] >= 0).all()), "graphs")
    _require(name, "x", len(graphs.x) == graphs.node_start[-1], "n_nodes")
    _require(name, "edge", len(graphs.edge) == len(graphs.edge_attr) == graphs.edge_start[-1], "n_edges")
    _require(name, "y", len(graphs.y) == len(graphs.node_start) - 1 == len(graphs.edge_start) - 1, "n_nodes")
    owner = np.repeat(np.arange(len(graphs)), np.diff(graphs.edge_start))
    inside = (graphs.edge >= 0) & (graphs.edge < np.diff(graphs.node_start)[owner, None])
    _require(name, "edge", graphs.edge.shape[1] == 2 and bool(inside.all()), "n_nodes")
    for split, chosen in graphs.splits.items():
        _require(name, split, bool(((chosen >= 0) & (chosen < len(graphs))).all()), "y")
    _check_splits(graphs)
    _check_targets(graphs, classes)
    return graphs


def _check_splits(graphs: GraphSet) -> None:
    """Raise MissingData if a graph occurs twice in the splits, or if a split is empty."""
    every = np.concatenate(list(graphs.splits.values()))
    numbers, times = np.unique(every, return_counts=True)
    if (times > 1).any():
        graph, count = numbers[times > 1][0], times[times > 1][0]
        places = " and ".join(split for split, chosen in graphs.splits.items() if graph in chosen)
        raise _wrong(graphs.name, f"graph {graph} comes {count} times, in {places}, expected once at most")
    for split, chosen in graphs.splits.items():
        if not len(chosen):
            raise _wrong(graphs.name, f"{split} has no graphs")


def _check_targets(graphs: GraphSet, classes: bool) -> None:
    """Raise MissingData if a graph of a split has no target, or an invalid one."""
    missing = np.isnan(graphs.y)
    used = np.concatenate(list(graphs.splits.values()))
    if missing[used].all(axis=1).any():
        raise _wrong(graphs.name, f"graph {used[missing[used].all(axis=1)][0]} has no target: y is NaN there")
    bad = ~(np.isin(graphs.y, (0, 1)) if classes else np.isfinite(graphs.y)) & ~missing
    if bad.any():
        graph, target = np.argwhere(bad)[0]
        expected = "0, 1" if classes else "a finite number"
        raise _wrong(graphs.name, f"y is {graphs.y[graph, target]:g} for graph {graph}, expected {expected} or NaN")


def read_nodes(data: bytes, name: str, sha256: str = "") -> NodeSet:
    """Parse one graph with labelled nodes from the bytes of its file, and check its contents."""
    arrays = _arrays(data, name, NODES)
    for array in NODES:
        axes = 1 if array == "node_labels" else 2
        _require_kind(
            name, array, arrays[array], axes, "b" if "masks" in array else "iu" if array == "edges" else "iuf"
        )
    x, edge, y = arrays["node_features"].astype(np.float32), arrays["edges"].astype(np.int64), arrays["node_labels"]
    masks: dict[str, NDArray] = {split: arrays[f"{'val' if split == 'valid' else split}_masks"] for split in SPLITS}
    _require(name, "node_labels", y.shape == x.shape[:1], "node_features")
    _require(name, "edges", edge.shape[1] == 2 and bool(((edge >= 0) & (edge < len(x))).all()), "node_features")
    for split, mask in masks.items():
        _require(name, f"{split} mask", mask.shape[1:] == x.shape[:1], "node_features")
        _require(name, f"{split} mask", len(mask) == len(masks["train"]), "train mask")
    finite, labelled = np.isfinite(x).all(axis=1), np.isin(y, (0, 1))
    if not finite.all():
        raise _wrong(name, f"node_features of node {np.argmin(finite)} has NaN or infinity")
    if not labelled.all():
        raise _wrong(name, f"node_labels is {y[np.argmin(labelled)]:g} for node {np.argmin(labelled)}, expected 0 or 1")
    times = np.sum(list(masks.values()), axis=0)
    if (times > 1).any():
        split, node = np.argwhere(times > 1)[0]
        raise _wrong(name, f"node {node} is in two masks of split {split}, expected one at most")
    return NodeSet(name, x, edge, y.astype(np.float32), masks, sha256)


def write_set(path: Path, arrays: dict[str, NDArray]) -> str:
    """Write a file in the offline format, with its hash in a file beside it; return the hash."""
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    write_atomic(path, data)
    write_atomic(note_of(path), digest + "\n")
    return digest


def _arrays(data: bytes, name: str, names: tuple[str, ...]) -> dict[str, NDArray]:
    try:
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            absent = [array for array in names if array not in stored.files]
            if absent:
                raise MissingData(f"data: {name} has no array {absent[0]!r}; it has {', '.join(stored.files)}.")
            return {array: stored[array] for array in names}
    except (ValueError, zipfile.BadZipFile) as error:
        raise MissingData(f"data: {name} is not an npz file of arrays: {error}.") from error


def _starts(counts: NDArray) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts.astype(np.int64))])


def _require(name: str, array: str, holds: bool, other: str) -> None:
    if not holds:
        raise _wrong(name, f"the array {array!r} does not fit {other!r}")


def _require_kind(name: str, array: str, values: NDArray, axes: int, kinds: str) -> None:
    if values.ndim != axes or values.dtype.kind not in kinds:
        words = {"b": "true or false", "iu": "whole numbers", "iuf": "numbers"}[kinds]
        raise _wrong(
            name, f"the array {array!r} is {values.dtype} along {values.ndim} axes, expected {words} along {axes}"
        )


def _wrong(name: str, what: str) -> MissingData:
    return MissingData(f"data: {name}: {what}. Delete the file and get it again.")
