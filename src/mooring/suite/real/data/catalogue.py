"""Catalogue of the sets: file, hash, size, metric and publisher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mooring.named import suggest

Metric = Literal["roc_auc", "average_precision", "rmse", "mae"]
#: Metrics for which larger is better.
RISING: tuple[Metric, ...] = ("roc_auc", "average_precision")

# OGB's integer features: nine of an atom, three of a bond.
ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BONDS = (5, 6, 2)


@dataclass(frozen=True)
class Source:
    """A published set.

    Args:
        name: name in commands and records.
        title: description.
        file: file name in the offline format; empty if only the loader provides the set.
        sha256: hash of the file.
        loader: loader that downloads the set, as `package: name`, for :func:`mooring.suite.real.data.online.fetch`.
        licence: licence, as stated by the publisher.
        metric: official metric.
        targets: numbers to predict per graph or node.
        train: number of training graphs or nodes.
        atoms, bonds: number of values of each integer feature; empty if features are real numbers.
        features: number of real features.
    """

    name: str
    title: str
    file: str
    sha256: str
    loader: str
    licence: str
    metric: Metric
    targets: int = 1
    train: int = 0
    atoms: tuple[int, ...] = ()
    bonds: tuple[int, ...] = ()
    features: int = 0


# SHA-256 of the published files.
SHA256 = {
    "bace": "616190f4ac18078cdb69a5384a23e01fd6dbac3eac4d17505a6512871da000b6",
    "esol": "874fe0c33638b25475b92134912275241b07673fa00189ef210891ca2347cbc5",
    "freesolv": "225d60d13b8a4106e79749270a75feee0c112d212b2cafcddd4ab0f9c528e43b",
    "lipo": "7394b576cfb5aaee371b63ff3cd2680006ad053e7ad9daae90cddd98a90cede9",
    "hiv": "0e529200bc51a443285c61f6a0f9b45dd6082ae3e7cfe6016dbd59657822a3d3",
    "func": "b3e50ecffdd81aaac4afa8c5967507a5183e0e2c73628534420af5030fab30a2",
    "minesweeper": "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
    "tolokers": "dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667",
}


def _molecules(name: str, title: str, metric: Metric, train: int) -> Source:
    file, loader = f"ogbg_mol{name}.npz", f"ogb: ogbg-mol{name}"
    return Source(name, title, file, SHA256[name], loader, "MIT", metric, train=train, atoms=ATOMS, bonds=BONDS)


def _nodes(name: str, title: str, train: int, features: int) -> Source:
    file, loader = f"{name}.npz", f"pyg: HeterophilousGraphDataset {name.capitalize()}"
    return Source(name, title, file, SHA256[name], loader, "MIT", "roc_auc", train=train, features=features)


GRAPH_SETS: Mapping[str, Source] = {
    entry.name: entry
    for entry in (
        _molecules("bace", "inhibition of an enzyme", "roc_auc", 1210),
        _molecules("esol", "solubility in water", "rmse", 902),
        _molecules("freesolv", "hydration energy", "rmse", 513),
        _molecules("lipo", "lipophilicity", "rmse", 3360),
        _molecules("hiv", "inhibition of HIV", "roc_auc", 32901),
        Source(
            name="zinc",
            title="constrained solubility, the 12,000 of the benchmark",
            file="",
            sha256="",
            loader="pyg: ZINC",
            licence="as ZINC states",
            metric="mae",
            train=10000,
            atoms=(28,),
            bonds=(4,),
        ),
        Source(
            name="func",
            title="Peptides-func: ten functions of a peptide",
            file="peptides_func.npz",
            sha256=SHA256["func"],
            loader="pyg: LRGBDataset Peptides-func",
            licence="CC BY-NC 4.0",
            metric="average_precision",
            targets=10,
            train=10873,
            atoms=ATOMS,
            bonds=BONDS,
        ),
    )
}

NODE_SETS: Mapping[str, Source] = {
    entry.name: entry
    for entry in (
        _nodes("minesweeper", "cells of a 100 x 100 grid; predict which are mines", 5000, features=7),
        _nodes("tolokers", "crowd workers linked by shared tasks; predict who was banned", 5879, features=10),
    )
}


def source(name: str) -> Source:
    """Return the set of this name; raise with a suggestion if the name is unknown."""
    known = {**GRAPH_SETS, **NODE_SETS}
    if name not in known:
        hint = suggest(name, known, f"there are {', '.join(known)}.")
        raise ValueError(f"data: unknown set {name!r}; {hint}")
    return known[name]
