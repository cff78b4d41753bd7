"""``tab:link-generation``, constrained link sets: one search for every module, and its result at all seeds.

The search runs four settings per module on the smaller sets of the preset ``search``, at a development seed, and
selects by validation: two rates times two layouts of the slots, or four rates for a module without a layout.
``--paper`` skips the search and runs all modules with the layout of the anchored module.
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
# The preset's rate first.
RATES = (2e-3, 5e-3)
MORE_RATES = (1e-3, 1e-2)


def settings(model: str) -> list[dict[str, Any]]:
    """Return the settings to search for a module, equally many for each."""
    if model in SLOTS:
        layouts: list[dict[str, Any]] = [{}, {"slots": 16, "heads": 4}]
    elif model == "transformer":
        layouts = [{}, {"heads": 4}]
    else:
        return [at_rate(rate) for rate in RATES + MORE_RATES]
    return [at_rate(rate) | layout for layout, rate in product(layouts, RATES)]


def at_rate(rate: float) -> dict[str, Any]:
    return {} if rate == RATES[0] else {"learning_rate": rate}


def f1(request: RunRequest) -> float:
    """Return the F1 on validation graphs, the selection criterion."""
    return float(RunRecord.read(resolve(request).record_path).metrics["best"]["f1"])


def command(
    models: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(SLOTS + OTHERS),
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0-4",
    paper: Annotated[bool, typer.Option("--paper", help="One setting for all, no search.")] = False,
    search_only: Annotated[bool, typer.Option("--search-only", help="Stop when all settings are tried.")] = False,
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
) -> None:
    numbers = parse_seeds(seeds)
    if paper:
        runs = [RunRequest(TASK, model, seed, "full", out=RUNS) for seed in numbers for model in PAPER]
        run_many(runs, workers)
    else:
        tried = {
            model: [RunRequest(TASK, model, DEVELOPMENT, "search", setting, RUNS) for setting in settings(model)]
            for model in models.split(",")
        }
        search = [request for requests in tried.values() for request in requests]
        run_many(search, workers)
        best = {model: settings(model)[requests.index(max(requests, key=f1))] for model, requests in tried.items()}
        further = [] if search_only else numbers
        rest = [RunRequest(TASK, model, seed, "full", best[model], RUNS) for seed in further for model in best]
        run_many(rest, workers)
        runs = search + rest
    print(tables_text([resolve(request).record_path for request in runs]))


if __name__ == "__main__":
    start(command)
