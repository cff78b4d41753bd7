"""``tab:motifs``: the planted motif census."""

from recipe import RUNS, main

from mooring.suite.train import RunRequest

MODELS = ("anchored", "sum", "cross-attn", "mean", "sum-log", "pna", "max")


def requests(seeds: list[int]) -> list[RunRequest]:
    return [RunRequest("motifs", model, seed, "full", out=RUNS) for seed in seeds for model in MODELS]


if __name__ == "__main__":
    main(requests)
