"""Is the paper's protocol unfair to the baselines? Ten times the learning rate, a VN that sums, a VN with a joint
decoder, and MPNNs whose messages or embeddings are merely added."""

from recipe import RESULTS, main

from mooring.suite.train import RunRequest

FASTER = {"learning_rate": 1e-3}


def requests(seeds: list[int]) -> list[RunRequest]:
    return [
        RunRequest("two-radius", model, seed, "paper", overrides, RESULTS)
        for seed in seeds
        for model, overrides in (
            ("mpnn", FASTER),
            ("vn", FASTER),
            ("vn-sum", {}),
            ("vn-sum", FASTER),
            ("mpnn-additive", {}),
            ("mpnn-summed", {}),
            ("vn-joint", {}),
        )
    ]


if __name__ == "__main__":
    main(requests, default_seeds="0-2")
