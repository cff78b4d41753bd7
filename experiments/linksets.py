"""``tab:link-generation``: constrained link sets without local message passing."""

from recipe import RESULTS, main

from mooring.suite.train import RunRequest

MODELS = ("moored", "anchored", "cross-attn", "vn-sum", "vn", "none")


def requests(seeds: list[int]) -> list[RunRequest]:
    return [RunRequest("linksets", model, seed, "full", out=RESULTS) for seed in seeds for model in MODELS]


if __name__ == "__main__":
    main(requests)
