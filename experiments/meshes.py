"""Learned solvers on plates with holes, every memory at one setting: no search for any of them.

``python experiments/meshes.py --physics heat --seeds 0-4``. The first seed of every model runs first, heat before
elasticity. Slots whose routing is "self" have the temperature that is the default of the public constructor there.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from recipe import RUNS, start

from mooring.nn.addresses import TEMPERATURES
from mooring.suite.chapters import tables_text
from mooring.suite.train import RunRequest, parse_seeds, resolve, run_many

SELF: dict[str, Any] = {"routing": "self", "temperature": TEMPERATURES["self"]}
# The headline first. A rival is as its paper has it; slots of ours are addressed by the nodes' own states, and by
# content in the row without changes.
ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("anchored", SELF),
    ("physics-attention", {}),
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


def command(
    physics: Annotated[str, typer.Option(help="Presets, comma-separated: heat, elasticity or heat-large.")] = (
        "heat,elasticity"
    ),
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0-4",
    models: Annotated[str, typer.Option(help="Comma-separated; all if empty.")] = "",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
) -> None:
    chosen = [row for row in ROWS if not models or row[0] in models.split(",")]
    runs = [
        RunRequest("meshes", model, seed, preset, changes, RUNS)
        for seed in parse_seeds(seeds)
        for preset in physics.split(",")
        for model, changes in chosen
    ]
    run_many(runs, workers, engine)  # type: ignore[arg-type]
    print(tables_text([resolve(request).record_path for request in runs]))


if __name__ == "__main__":
    start(command)
