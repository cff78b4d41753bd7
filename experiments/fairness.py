"""Fairness of the paper's protocol to the baselines.

Ten times the learning rate, widths that give MPNN and VN as many parameters as anchored slots, a VN that sums, a VN
with a joint decoder, and MPNNs that only add messages or embeddings.
"""

from recipe import RUNS, main

from mooring.suite.train import RunRequest

FASTER = {"learning_rate": 1e-3}
# 439 k parameters, like anchored slots, to 0.7 %.
MPNN_WIDTH, VN_WIDTH = {"channels": 169}, {"channels": 146}


def requests(seeds: list[int]) -> list[RunRequest]:
    return [
        RunRequest("two-radius", model, seed, "paper", overrides, RUNS)
        for seed in seeds
        for model, overrides in (
            ("mpnn", FASTER),
            ("vn", FASTER),
            ("mpnn", MPNN_WIDTH),
            ("vn", VN_WIDTH),
            ("vn-sum", {}),
            ("vn-sum", FASTER),
            ("mpnn-additive", {}),
            ("mpnn-summed", {}),
            ("vn-joint", {}),
        )
    ]


if __name__ == "__main__":
    main(requests, default_seeds="0-2")
