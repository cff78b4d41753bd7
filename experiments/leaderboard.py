"""Every global module of the zoo on counted Two-Radius, at its own size (budgets are not matched yet)."""

from recipe import RESULTS, main

from mooring import zoo
from mooring.train import RunRequest


def requests(seeds: list[int]) -> list[RunRequest]:
    return [RunRequest("two-radius", model, seed, "quick", out=RESULTS) for seed in seeds for model in zoo.names()]


if __name__ == "__main__":
    main(requests, default_seeds="0-2")
