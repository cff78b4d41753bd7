"""Download of sets using the loaders of OGB and PyG, and conversion to the offline format."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.suite.real.data.catalogue import Source, source
from mooring.suite.real.data.files import MissingData, path_of, write_set
from mooring.suite.real.data.graphs import SPLITS

# Folder of the loaders' downloads, inside the data folder.
DOWNLOADS = "downloads"
# PyG's name of the second split.
PYG_SPLITS = {"train": "train", "valid": "val", "test": "test"}


def fetch(name: str, folder: Path) -> Path:
    """Download a set with its publisher's loader, write its file into the data folder and return the path."""
    set_ = source(name)
    package = set_.loader.partition(": ")[0]
    if package == "ogb" and importlib.util.find_spec("ogb") is None:
        raise ImportError(f"data: {name} needs ogb, which is not installed. Type: pip install 'mooring[molecules]'")
    try:
        arrays = _arrays(set_, folder / DOWNLOADS)
    except OSError as error:
        raise MissingData(
            f"data: {name} could not be downloaded ({error}). Is there a network? Else copy {path_of(set_).name} into "
            f"{folder} from elsewhere."
        ) from error
    path = path_of(set_, folder)
    write_set(path, arrays)
    return path


def _arrays(set_: Source, root: Path) -> dict[str, NDArray]:
    package, _, what = set_.loader.partition(": ")
    loader, _, argument = what.partition(" ")
    if package == "ogb":
        from ogb.graphproppred import PygGraphPropPredDataset

        with _unsafe_load():
            dataset = PygGraphPropPredDataset(what, root=str(root))
        return from_graphs(dataset, {split: np.asarray(ids) for split, ids in dataset.get_idx_split().items()})
    from torch_geometric import datasets

    if loader == "HeterophilousGraphDataset":
        return from_nodes(datasets.HeterophilousGraphDataset(str(root), argument)[0])
    load = {
        "LRGBDataset": lambda split: datasets.LRGBDataset(str(root), argument, split=split),
        "ZINC": lambda split: datasets.ZINC(str(root / "ZINC"), subset=True, split=split),
    }[loader]
    parts = [load(PYG_SPLITS[split]) for split in SPLITS]
    ends = np.cumsum([0, *map(len, parts)])
    splits: dict[str, NDArray] = {split: np.arange(ends[place], ends[place + 1]) for place, split in enumerate(SPLITS)}
    return from_graphs((graph for part in parts for graph in part), splits)


def from_graphs(graphs: Iterable[Any], splits: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Convert PyG graphs with integer features to the arrays of a file; each edge once, in one direction."""
    columns: dict[str, list[NDArray]] = {"x": [], "edge": [], "edge_attr": [], "y": []}
    for graph in graphs:
        edge = graph.edge_index.numpy().T
        forward = edge[:, 0] < edge[:, 1]
        if 2 * forward.sum() != len(edge):
            raise MissingData(
                "data: a graph has loops or edges in one direction only, which the format does not support."
            )
        columns["x"].append(graph.x.numpy().astype(np.uint8))
        columns["edge"].append(edge[forward].astype(np.uint16))
        columns["edge_attr"].append(graph.edge_attr.numpy().reshape(len(edge), -1)[forward].astype(np.uint8))
        columns["y"].append(graph.y.numpy().reshape(1, -1).astype(np.float32))
    counts = {
        f"n_{what}": np.array([len(part) for part in columns[key]]) for what, key in (("nodes", "x"), ("edges", "edge"))
    }
    return {**{name: np.concatenate(parts) for name, parts in columns.items()}, **counts, **splits}


def from_nodes(graph: Any) -> dict[str, NDArray]:
    """Convert a PyG graph with ten masks to the arrays of a file."""
    edge = graph.edge_index.numpy().T
    edge = np.unique(np.sort(edge[edge[:, 0] != edge[:, 1]], axis=1), axis=0)
    masks = {f"{split}_masks": getattr(graph, f"{split}_mask").numpy().T for split in PYG_SPLITS.values()}
    return {"node_features": graph.x.numpy(), "node_labels": graph.y.numpy(), "edges": edge, **masks}


@contextmanager
def _unsafe_load() -> Any:
    """Let OGB load the pickle that it has just written, which newer versions of torch reject by default."""
    name = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
