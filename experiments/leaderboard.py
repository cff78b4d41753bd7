"""Every global module of the zoo on counted Two-Radius: equal budgets, equal updates, the same search for a rate.

The rule: the first seed runs at every rate, though a module that the first one solves needs no other; the rate with
the best validation Both goes to the other seeds.
"""

from __future__ import annotations

from typing import Annotated

import typer
from recipe import RESULTS

from mooring import zoo
from mooring.report import tables_text
from mooring.train import Record, RunRequest, parse_seeds, run_many

TASK, PRESET = "two-radius-leaderboard", "screen"
RATES = (1e-3, 3e-4)


def request(model: str, seed: int, rate: float) -> RunRequest:
    overrides = {} if rate == RATES[0] else {"learning_rate": rate}
    return RunRequest(TASK, model, seed, PRESET, overrides, RESULTS)


def both(asked: RunRequest) -> float:
    """The validation Both a finished run was selected by."""
    return float(Record.read(asked.record_path).metrics["best"]["both"])


def command(
    seeds: Annotated[str, typer.Option(help="The first one chooses the rate.")] = "0-2",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
) -> None:
    first, *others = parse_seeds(seeds)
    tried: dict[str, list[RunRequest]] = {model: [] for model in zoo.names()}
    for rate in RATES:
        unsolved = [model for model, runs in tried.items() if all(both(run) < 1.0 for run in runs)]
        for model in unsolved:
            tried[model].append(request(model, first, rate))
        run_many([tried[model][-1] for model in unsolved], workers, engine)  # type: ignore[arg-type]
    best = {model: RATES[runs.index(max(runs, key=both))] for model, runs in tried.items()}
    rest = [request(model, seed, rate) for seed in others for model, rate in best.items()]
    run_many(rest, workers, engine)  # type: ignore[arg-type]
    print(tables_text([run.record_path for run in [*(run for runs in tried.values() for run in runs), *rest]]))


if __name__ == "__main__":
    typer.run(command)
