"""``tab:link-generation``, constrained link sets: one search for every module, and what it finds at all seeds.

Four settings each are tried on the smaller sets of the preset ``search``, at a development seed and by validation: two
rates times two layouts of the slots, or four rates where a module has no layout. ``--paper`` leaves the search out and
runs the layout that suits the anchored module, for all.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import typer
from recipe import RUNS, start

from mooring.suite.chapters import tables_text
from mooring.suite.train import RunRecord, RunRequest, parse_seeds, resolve, run_many

TASK = "linksets"
DEVELOPMENT = 100
PAPER = ("moored", "anchored", "cross-attn", "vn-sum", "vn", "none")
SLOTS = ("moored", "anchored", "gmt", "lse", "cross-attn", "registers", "acam", "isab", "perceiver")
OTHERS = ("transformer", "vn-sum", "vn", "none")
# The preset's own first.
RATES = (2e-3, 5e-3)
MORE_RATES = (1e-3, 1e-2)


def settings(model: str) -> list[dict[str, Any]]:
    """What is tried for a module: as many settings for each of them."""
    if model in SLOTS:
        layouts: list[dict[str, Any]] = [{}, {"slots": 16, "heads": 4}]
    elif model == "transformer":
        layouts = [{}, {"heads": 4}]
    else:
        return [at_rate(rate) for rate in RATES + MORE_RATES]
    return [at_rate(rate) | layout for layout, rate in product(layouts, RATES)]


def at_rate(rate: float) -> dict[str, Any]:
    return {} if rate == RATES[0] else {"learning_rate": rate}


def f1(asked: RunRequest) -> float:
    """What settings are chosen by: F1 on validation graphs."""
    return float(RunRecord.read(resolve(asked).record_path).metrics["best"]["f1"])


def command(
    models: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(SLOTS + OTHERS),
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0-4",
    paper: Annotated[bool, typer.Option("--paper", help="One setting for all, no search.")] = False,
    search_only: Annotated[bool, typer.Option("--search-only", help="Stop when all settings are tried.")] = False,
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
) -> None:
    numbers = parse_seeds(seeds)
    if paper:
        asked = [RunRequest(TASK, model, seed, "full", out=RUNS) for seed in numbers for model in PAPER]
        run_many(asked, workers)
    else:
        tried = {
            model: [RunRequest(TASK, model, DEVELOPMENT, "search", setting, RUNS) for setting in settings(model)]
            for model in models.split(",")
        }
        search = [one for requests in tried.values() for one in requests]
        run_many(search, workers)
        best = {model: settings(model)[requests.index(max(requests, key=f1))] for model, requests in tried.items()}
        later = [] if search_only else numbers
        rest = [RunRequest(TASK, model, seed, "full", best[model], RUNS) for seed in later for model in best]
        run_many(rest, workers)
        asked = search + rest
    print(tables_text([resolve(request).record_path for request in asked]))


if __name__ == "__main__":
    start(command)
