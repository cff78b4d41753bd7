"""Leaderboard of all global modules of the zoo on one task: equal budgets, equal updates, one search for a rate.

The first seed runs at every rate, except that a module solved at the first rate skips the others. The other seeds use
the rate with the best validation. The best five modules then run at the further seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import mean
from typing import Annotated, Any

import typer
from recipe import RUNS, Engine, Workers, best, run, score, show, start

from mooring import zoo
from mooring.suite.train import RunRequest, parse_seeds

PRESET = "screen"
TOP = 5


@dataclass(frozen=True)
class Board:
    """A task, its learning rates (the preset's first), and the score of a run without a mistake."""

    task: str
    rates: tuple[float, ...]
    solved: float

    def request(self, model: str, seed: int, rate: float) -> RunRequest:
        overrides: dict[str, Any] = {} if rate == self.rates[0] else {"learning_rate": rate}
        # Its random edges depend on the number of nodes, so it must see every copy of a source.
        if model == "exphormer" and self.task.startswith("two-radius"):
            overrides["rendering"] = "full"
        return RunRequest(self.task, model, seed, PRESET, overrides, RUNS)


BOARDS = {
    "two-radius": Board("two-radius-leaderboard", (1e-3, 3e-4), solved=1.0),
    "motifs": Board("motifs-leaderboard", (2e-3, 5e-3), solved=0.0),
}


def command(
    task: Annotated[str, typer.Argument(help="two-radius or motifs.")] = "two-radius",
    seeds: Annotated[str, typer.Option(help="The first one chooses the rate.")] = "0-2",
    further: Annotated[str, typer.Option(help="Seeds of the best five besides; none if empty.")] = "3-4",
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    if task not in BOARDS:
        raise typer.BadParameter(f"{task!r} has no leaderboard; expected {' or '.join(BOARDS)}.")
    board = BOARDS[task]
    first, *others = parse_seeds(seeds)
    tried: dict[str, list[RunRequest]] = {model: [] for model in zoo.names()}

    def train(models: Iterable[str], seed: int, rates: Mapping[str, float]) -> None:
        for request in run((board.request(model, seed, rates[model]) for model in models), workers, engine):
            tried[request.model].append(request)

    for rate in board.rates:
        unsolved = [model for model, runs in tried.items() if all(score(request) < board.solved for request in runs)]
        train(unsolved, first, dict.fromkeys(unsolved, rate))
    rates = {model: best(board.rates, runs) for model, runs in tried.items()}
    for seed in others:
        train(rates, seed, rates)

    def mean_score(model: str) -> float:
        return mean(score(board.request(model, seed, rates[model])) for seed in (first, *others))

    if further:
        leaders = sorted(rates, key=mean_score, reverse=True)[:TOP]
        for seed in parse_seeds(further):
            train(leaders, seed, rates)
    show(chain.from_iterable(tried.values()))


if __name__ == "__main__":
    start(command)
