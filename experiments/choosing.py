"""Choices of the memory (slots, heads, position, carried or not), changed one at a time at development seeds.

``python experiments/choosing.py --sets esol,freesolv``. The readout is a mean, so that it does
not provide the information of the memory.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from recipe import RUNS, start

from mooring.suite.chapters import tables_text
from mooring.suite.train import RunRequest, parse_seeds, resolve, run_many

MODEL = "anchored"
# The preset has eight slots of four heads after the second and the fourth of four layers, and does not carry them.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    *({"slots": number} for number in (2, 4, 16, 32)),
    *({"heads": number} for number in (1, 2, 8)),
    *({"memory_after": places} for places in ("1", "3", "0,1,2,3")),
    {"carry": "true"},
    {"memory_lr_scale": 3.0},
    {"integrate": "residual"},
)
OTHERS = ("none", "moored")


def command(
    sets: Annotated[str, typer.Option(help="Comma-separated.")] = "esol",
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "100-102",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
) -> None:
    runs = [
        RunRequest("molecules", model, seed, "choosing", {"dataset": dataset, **change}, RUNS)
        for dataset in sets.split(",")
        for seed in parse_seeds(seeds)
        for model, change in [*((MODEL, change) for change in CHANGES), *((model, {}) for model in OTHERS)]
    ]
    run_many(runs, workers)
    print(tables_text([resolve(request).record_path for request in runs]))


if __name__ == "__main__":
    start(command)
