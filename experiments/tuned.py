"""Motif census with one search for every module: four settings at a development seed, the best at all seeds.

The search varies the integration of the read and the dropout: of the content if a module has a mass besides it,
otherwise of writes and messages. The rate is the result of the search in ``leaderboard.py`` for all of these modules.
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
# Modules with a mass besides their content, so that the content can be dropped at times.
MASSES = ("moored", "anchored", "lse", "shared-anchor")
OTHERS = ("gmt", "registers", "acam", "cpa-scale", "cross-attn")


def settings(model: str) -> list[dict[str, Any]]:
    """Return the settings to search for a module, equally many for each."""
    hidden = {"content_dropout": 0.5} if model in MASSES else {"dropout": 0.2}
    changes = [({} if way == "film" else {"integrate": way}, more) for way, more in product(INTEGRATIONS, ({}, hidden))]
    return [way | more for way, more in changes]


def error(request: RunRequest) -> float:
    """Return the selection criterion: the mean log error over all splits of the development seed."""
    final = RunRecord.read(resolve(request).record_path).metrics["final"]
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
        final = [RunRequest(TASK, model, seed, "tuned", best, RUNS) for seed in numbers]
        run_many(final, workers)
        chosen += tried + final
    print(tables_text([resolve(request).record_path for request in chosen]))


if __name__ == "__main__":
    start(command)
