"""Motif census with one search for every module: four settings at a development seed, the best at all seeds.

The search varies the integration of the read and the dropout: of the content if a module has a mass besides it,
otherwise of writes and messages. The rate is the result of the search in ``leaderboard.py`` for all of these modules.
"""

from __future__ import annotations

import math
from itertools import chain, product
from statistics import fmean
from typing import Any

from recipe import DEVELOPMENT, RUNS, Names, Seeds, Workers, best, run, show, start

from mooring.suite.train import RunRecord, RunRequest, parse_seeds, resolve

TASK = "motifs-leaderboard"
INTEGRATIONS = ("film", "residual")
# Modules with a mass besides their content, so that the content can be dropped at times.
MASSES = ("moored", "anchored", "lse", "shared-anchor")
OTHERS = ("gmt", "registers", "acam", "cpa-scale", "cross-attn")
MODELS = ",".join(MASSES + OTHERS)


def settings(model: str) -> list[dict[str, Any]]:
    """Return the settings to search for a module, equally many for each."""
    hidden = {"content_dropout": 0.5} if model in MASSES else {"dropout": 0.2}
    changes = [({} if way == "film" else {"integrate": way}, more) for way, more in product(INTEGRATIONS, ({}, hidden))]
    return [way | more for way, more in changes]


def exactness(request: RunRequest) -> float:
    """Return the selection criterion: minus the mean log error over all splits of the development seed."""
    final = RunRecord.read(resolve(request).record_path).metrics["final"]
    return -fmean(math.log(value) for name, value in final.items() if name.endswith("/log_mae"))


def command(models: Names = MODELS, seeds: Seeds = "0-4", workers: Workers = None) -> None:
    numbers = parse_seeds(seeds)
    search = {
        model: [RunRequest(TASK, model, DEVELOPMENT, "search", setting, RUNS) for setting in settings(model)]
        for model in models.split(",")
    }
    # Settings that do not exist raise before anything is trained.
    for request in chain.from_iterable(search.values()):
        resolve(request)
    runs = []
    for model, tried in search.items():
        runs += run(tried, workers)
        setting = best(settings(model), tried, exactness)
        runs += run((RunRequest(TASK, model, seed, "tuned", setting, RUNS) for seed in numbers), workers)
    show(runs)


if __name__ == "__main__":
    start(command)
