"""``tab:link-generation``, constrained link sets: one search for every module, and its result at all seeds.

The search runs four settings per module on the smaller sets of the preset ``search``, at a development seed, and
selects by validation: two rates times two layouts of the slots, or four rates for a module without a layout.
``--paper`` skips the search and runs all modules with the layout of the anchored module.
"""

from __future__ import annotations

from itertools import chain, product
from typing import Annotated, Any

import typer
from recipe import DEVELOPMENT, RUNS, Names, Seeds, Workers, best, run, show, start

from mooring.suite.train import RunRequest, parse_seeds

TASK = "linksets"
PAPER = ("moored", "anchored", "cross-attn", "vn-sum", "vn", "none")
SLOTS = ("moored", "anchored", "gmt", "lse", "cross-attn", "registers", "acam", "isab", "perceiver")
OTHERS = ("transformer", "vn-sum", "vn", "none")
# The preset's rate first.
RATES = (2e-3, 5e-3)
MORE_RATES = (1e-3, 1e-2)
MODELS = ",".join(SLOTS + OTHERS)


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


def command(
    models: Names = MODELS,
    seeds: Seeds = "0-4",
    paper: Annotated[bool, typer.Option("--paper", help="One setting for all, no search.")] = False,
    search_only: Annotated[bool, typer.Option("--search-only", help="Stop when all settings are tried.")] = False,
    workers: Workers = None,
) -> None:
    numbers = parse_seeds(seeds)
    if paper:
        show(run((RunRequest(TASK, model, seed, "full", out=RUNS) for seed in numbers for model in PAPER), workers))
        return
    tried = {
        model: [RunRequest(TASK, model, DEVELOPMENT, "search", setting, RUNS) for setting in settings(model)]
        for model in models.split(",")
    }
    runs = run(chain.from_iterable(tried.values()), workers)
    if not search_only:
        chosen = {model: best(settings(model), requests) for model, requests in tried.items()}
        final = (RunRequest(TASK, model, seed, "full", chosen[model], RUNS) for seed in numbers for model in chosen)
        runs += run(final, workers)
    show(runs)


if __name__ == "__main__":
    start(command)
