"""The motif census with one search for every module: four settings at a development seed, the best at all seeds.

What is varied is how the read is taken into the nodes, and how much is hidden in training: of the content where a
module has a mass beside it, of writes and messages where it has none. The rate is the one that the search of
``leaderboard.py`` found for all of these modules.
"""

from __future__ import annotations

import math
from itertools import chain, product
from statistics import fmean
from typing import Annotated, Any

import typer
from recipe import RUNS, start

from mooring.suite.chapters import tables_text
from mooring.suite.train import RunRecord, RunRequest, parse_seeds, resolve, run_many

TASK = "motifs-leaderboard"
DEVELOPMENT = 100
INTEGRATIONS = ("film", "residual")
# Modules with a mass beside their content, which can do without the content at times.
MASSES = ("moored", "anchored", "lse", "shared-anchor")
OTHERS = ("gmt", "registers", "acam", "cpa-scale", "cross-attn")


def settings(model: str) -> list[dict[str, Any]]:
    """What is tried for a module: as many settings for each of them."""
    hidden = {"content_dropout": 0.5} if model in MASSES else {"dropout": 0.2}
    changes = [({} if way == "film" else {"integrate": way}, more) for way, more in product(INTEGRATIONS, ({}, hidden))]
    return [way | more for way, more in changes]


def error(asked: RunRequest) -> float:
    """What settings are chosen by: the mean log error over all splits of the development seed, none favoured."""
    final = RunRecord.read(resolve(asked).record_path).metrics["final"]
    return fmean(math.log(value) for name, value in final.items() if name.endswith("/log_mae"))


def command(
    models: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(MASSES + OTHERS),
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0-4",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
) -> None:
    chosen: list[RunRequest] = []
    numbers = parse_seeds(seeds)
    search = {
        model: [RunRequest(TASK, model, DEVELOPMENT, "search", setting, RUNS) for setting in settings(model)]
        for model in models.split(",")
    }
    for request in chain.from_iterable(search.values()):
        resolve(request)
    for model, tried in search.items():
        run_many(tried, workers)
        best = settings(model)[tried.index(min(tried, key=error))]
        asked = [RunRequest(TASK, model, seed, "tuned", best, RUNS) for seed in numbers]
        run_many(asked, workers)
        chosen += tried + asked
    print(tables_text([resolve(request).record_path for request in chosen]))


if __name__ == "__main__":
    start(command)
