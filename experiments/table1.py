"""``tab:counted``: the four variants of counted Two-Radius under the paper's protocol."""

from recipe import RUNS, main

from mooring.suite.train import RunRequest

MODELS = ("anchored", "cross-attn", "vn", "mpnn")


def requests(seeds: list[int]) -> list[RunRequest]:
    return [RunRequest("two-radius", model, seed, "paper", out=RUNS) for seed in seeds for model in MODELS]


if __name__ == "__main__":
    main(requests)
