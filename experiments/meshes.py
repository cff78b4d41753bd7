"""Learned solvers on plates with holes, every memory at one setting: no search for any of them.

``python experiments/meshes.py --physics heat --seeds 0-4``. The first seed of every model runs first, heat before
elasticity. ``meshes.py slots`` and ``meshes.py nodes`` change the number of slots, and of nodes and slots. Slots whose
routing is "self" have the temperature that is the default of the public constructor there.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from recipe import RUNS, Engine, Seeds, Workers, run, show, start

from mooring.nn.addresses import TEMPERATURES
from mooring.suite.train import RunRequest, parse_seeds

SELF: dict[str, Any] = {"routing": "self", "temperature": TEMPERATURES["self"]}
Row = tuple[str, dict[str, Any]]
# The headline first. A rival is as its paper has it; slots of ours are addressed by the nodes' own states, and by
# content in the row without changes.
HEADLINE: tuple[Row, ...] = (("anchored", SELF), ("physics-attention", {}))
MEMORIES: tuple[Row, ...] = (
    *HEADLINE,
    ("vn", {}),
    ("none", {}),
    ("anchored", {}),
    ("moored", SELF),
    ("cross-attn", SELF),
    *((name, {}) for name in ("vn-sum", "ogb-vn", "gmt", "isab", "perceiver", "physics-slices", "plain")),
    # Two to three times as long as the others.
    ("transformer", {}),
    ("exphormer", {}),
)
SLOTS: tuple[Row, ...] = tuple(
    (model, {**changes, "slots": slots}) for slots in (4, 8, 16, 32, 64, 128) for model, changes in HEADLINE
)
# The smallest meshes first: the largest take nearly all of the time.
NODES: tuple[Row, ...] = tuple(
    ("anchored", {**SELF, "nodes": nodes, "slots": slots})
    for nodes in ((400, 600), (4_000, 6_000), (40_000, 60_000))
    for slots in (8, 32, 128)
)


def command(
    study: Annotated[str, typer.Argument(help="memories, slots or nodes.")] = "memories",
    physics: Annotated[str, typer.Option(help="Of memories, comma-separated: heat, elasticity, heat-large.")] = (
        "heat,elasticity"
    ),
    seeds: Seeds = "0-4",
    models: Annotated[str, typer.Option(help="Comma-separated; all if empty.")] = "",
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    studies = {"memories": (MEMORIES, physics.split(",")), "slots": (SLOTS, ["slots"]), "nodes": (NODES, ["nodes"])}
    if study not in studies:
        raise typer.BadParameter(f"no study {study!r}; expected {', '.join(studies)}.")
    rows, presets = studies[study]
    requests = [
        RunRequest("meshes", model, seed, preset, changes, RUNS)
        for seed in parse_seeds(seeds)
        for preset in presets
        for model, changes in rows
        if not models or model in models.split(",")
    ]
    show(run(requests, workers, engine))


if __name__ == "__main__":
    start(command)
