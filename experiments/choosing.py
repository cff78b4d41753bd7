"""Choices of the memory (slots, heads, position, carried or not), changed one at a time at development seeds.

``python experiments/choosing.py --sets esol,freesolv``. The readout is a mean, so that it does
not provide the information of the memory.
"""

from __future__ import annotations

from typing import Any

from recipe import RUNS, Names, Seeds, Workers, run, show, start

from mooring.suite.train import RunRequest, parse_seeds

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


def command(sets: Names = "esol", seeds: Seeds = "100-102", workers: Workers = None) -> None:
    requests = [
        RunRequest("molecules", model, seed, "choosing", {"dataset": dataset, **change}, RUNS)
        for dataset in sets.split(",")
        for seed in parse_seeds(seeds)
        for model, change in [*((MODEL, change) for change in CHANGES), *((model, {}) for model in OTHERS)]
    ]
    show(run(requests, workers))


if __name__ == "__main__":
    start(command)
