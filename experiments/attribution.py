"""Motif census, one part at a time: the way nodes are shared out, the integration, and hidden content.

Every row has the rate and the updates of ``tuned.py``, the mass ``log(1 + Z)`` and a linear map of it. No row was
chosen by a search. ``gmt`` has no separate mass, so there is no content to hide from it.
"""

from recipe import RUNS, main

from mooring.suite.train import RunRequest

TASK, PRESET = "motifs-leaderboard", "attribution"
MASS = {"mass": "softplus", "mass_map": "linear"}
INTEGRATIONS = ("film", "linear_film", "residual")


def requests(seeds: list[int]) -> list[RunRequest]:
    runs = []
    for seed in seeds:
        for way in INTEGRATIONS:
            integrate = {} if way == "film" else {"integrate": way}
            runs.append(RunRequest(TASK, "gmt", seed, PRESET, integrate, RUNS))
            for hidden in ({}, {"content_dropout": 0.5}):
                changes = MASS | integrate | hidden
                runs.append(RunRequest(TASK, "anchored", seed, PRESET, changes, RUNS))
                runs.append(RunRequest(TASK, "anchored", seed, PRESET, changes | {"competition": True}, RUNS))
                runs.append(RunRequest(TASK, "gmt-mass", seed, PRESET, changes, RUNS))
    return runs


if __name__ == "__main__":
    main(requests)
