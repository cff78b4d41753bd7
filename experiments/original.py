"""Original Two-Radius of Mishayev et al.: accuracy against the number of identifiers, one budget for all models."""

from recipe import RUNS, main

from mooring.nn.addresses import TEMPERATURES
from mooring.suite.train import RunRequest

SIZES = (10, 50, 100, 150, 200)
# gcn+vn-sum with three blocks is the published virtual node. Slots are the preset's 256, and also 512 for more than 128
# identifiers: identifiers that share a slot cost accuracy, and with twice as many slots few do.
MODELS = {"gcn": {}, "gin": {}, "gat": {}, "gcn+vn-sum": {"memory_blocks": 3}, "gcn+anchored": {}}


# No identifier is given as an address: each node's own state is its address, standardised by itself or over the batch.
SELF = {"addressed": False, "routing": "self", "temperature": TEMPERATURES["self"]}

# Ten times the updates for the baselines at the smallest size.
LONGER = {"num_identifiers": 10, "epochs": 200}


def requests(seeds: list[int]) -> list[RunRequest]:
    longer = [
        RunRequest("two-radius-original", model, seed, "sweep", {**MODELS[model], **LONGER}, RUNS)
        for seed in seeds
        for model in ("gcn", "gin", "gat", "gcn+vn-sum")
    ]
    alone = [
        RunRequest("two-radius-original", "gcn+moored", seed, "sweep", SELF | norm | {"num_identifiers": size}, RUNS)
        for seed in seeds
        for size in SIZES[:3]
        for norm in ({}, {"address_norm": "batch"})
    ]
    return (
        longer
        + alone
        + [
            RunRequest("two-radius-original", model, seed, "sweep", {**extra, "num_identifiers": size}, RUNS)
            for seed in seeds
            for size in SIZES
            for model, extra in [*MODELS.items(), *([("gcn+anchored", {"slots": 512})] if size > 128 else [])]
        ]
    )


if __name__ == "__main__":
    main(requests, default_seeds="0")
