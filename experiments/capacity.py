"""Permutation Two-Radius over slots x width at n = 24, beside the line of ``thm:lower``."""

from recipe import RUNS, main

from mooring.suite.train import RunRequest

SLOTS = (1, 3, 6, 12, 24)
WIDTHS = (4, 8, 16, 32)


def requests(seeds: list[int]) -> list[RunRequest]:
    return [
        RunRequest(
            "two-radius-permutation",
            "cross-attn",
            seed,
            "full",
            {"slots": slots, "channels": width, "epochs": 30},
            RUNS,
        )
        for seed in seeds
        for slots in SLOTS
        for width in WIDTHS
    ]


if __name__ == "__main__":
    main(requests, default_seeds="0")
