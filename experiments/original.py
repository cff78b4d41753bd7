"""The original Two-Radius of Mishayev et al.: accuracy against the number of identifiers, one budget for all models."""

from recipe import RESULTS, main

from mooring.train import RunRequest

SIZES = (10, 50, 100, 150, 200)
# gcn+vn-sum with three blocks is the published virtual node.
MODELS = {"gcn": {}, "gin": {}, "gat": {}, "gcn+vn-sum": {"memory_blocks": 3}, "gcn+anchored": {}}
# 2,000 updates of 8 graphs, where the published runs take up to 100 epochs of 7,000 graphs: two cores' worth.
BUDGET = {"channels": 128, "batch_size": 8, "steps_per_epoch": 100, "epochs": 20, "sizes": (7000, 200, 700)}


def slots_for(size: int) -> int:
    """A quarter more slots than identifiers, so that no two must share one."""
    return size + max(size // 4, 6)


def requests(seeds: list[int]) -> list[RunRequest]:
    return [
        RunRequest(
            "two-radius-original",
            model,
            seed,
            "full",
            {**BUDGET, **extra, "num_identifiers": size, "slots": slots_for(size)},
            RESULTS,
        )
        for seed in seeds
        for size in SIZES
        for model, extra in MODELS.items()
    ]


if __name__ == "__main__":
    main(requests, default_seeds="0")
