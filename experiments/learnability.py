"""Learnability, the paper's second limitation: whether training finds the construction, and in how many updates.

Counted Two-Radius without a cap on parameters; one size changes at a time: identifiers (with as many slots), slots,
width, temperature, and the way nodes find slots. ``python experiments/learnability.py --models moored,anchored``.
"""

from __future__ import annotations

from typing import Any

from recipe import RUNS, Names, Seeds, Workers, run, show, start

from mooring.nn.addresses import TEMPERATURES
from mooring.suite.train import RunRequest, parse_seeds

SELF: dict[str, Any] = {"addressed": False, "routing": "self", "temperature": TEMPERATURES["self"]}
# The preset has 12 identifiers, 12 slots, width 64 and temperature 0.35.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    *({"num_identifiers": number, "slots": number} for number in (6, 24, 48)),
    *({"slots": number} for number in (3, 6, 24)),
    *({"channels": number} for number in (16, 32, 128)),
    *({"temperature": number} for number in (0.1, 1.0, 3.0)),
    # Routing by content, with as many slots as identifiers and with twice as many.
    *({"addressed": False, "slots": number} for number in (12, 24)),
    *({"addressed": False, "temperature": number} for number in (1.0,)),
    # Each node's own state as its address, at the default temperature of the constructor.
    # The same with a norm over the batch, which removes what message passing gives to all nodes alike.
    *(
        SELF | norm | size
        for norm in ({}, {"address_norm": "batch"})
        for size in ({}, *({"num_identifiers": number, "slots": number} for number in (6, 24, 48)))
    ),
)


def command(models: Names = "moored", seeds: Seeds = "0-2", workers: Workers = None) -> None:
    requests = [
        RunRequest("two-radius-leaderboard", model, seed, "learnability", change, RUNS)
        for seed in parse_seeds(seeds)
        for model in models.split(",")
        for change in CHANGES
    ]
    show(run(requests, workers))


if __name__ == "__main__":
    start(command)
