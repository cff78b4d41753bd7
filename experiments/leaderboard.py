"""Leaderboard of all global modules of the zoo on one task: equal budgets, equal updates, one search for a rate.

The first seed runs at every rate, except that a module solved at the first rate skips the others. The other seeds use
the rate with the best validation. The best five modules then run at the further seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import Annotated, Any

import typer
from recipe import RUNS, start

from mooring import zoo
from mooring.suite.chapters import tables_text
from mooring.suite.train import RunRecord, RunRequest, parse_seeds, resolve, run_many

PRESET = "screen"
TOP = 5


@dataclass(frozen=True)
class Board:
    """A task, its learning rates (the preset's first), and the validation metric that ranks modules."""

    task: str
    rates: tuple[float, ...]
    metric: str
    sign: int
    solved: float

    def request(self, model: str, seed: int, rate: float) -> RunRequest:
        overrides: dict[str, Any] = {} if rate == self.rates[0] else {"learning_rate": rate}
        # Its random edges depend on the number of nodes, so it must see every copy of a source.
        if model == "exphormer" and self.task.startswith("two-radius"):
            overrides["rendering"] = "full"
        return RunRequest(self.task, model, seed, PRESET, overrides, RUNS)

    def score(self, request: RunRequest) -> float:
        """Return the selection metric of a finished run, with the sign that makes higher better."""
        return self.sign * float(RunRecord.read(resolve(request).record_path).metrics["best"][self.metric])


BOARDS = {
    "two-radius": Board("two-radius-leaderboard", (1e-3, 3e-4), "both", sign=1, solved=1.0),
    "motifs": Board("motifs-leaderboard", (2e-3, 5e-3), "log_mae", sign=-1, solved=0.0),
}


def command(
    task: Annotated[str, typer.Argument(help="two-radius or motifs.")] = "two-radius",
    seeds: Annotated[str, typer.Option(help="The first one chooses the rate.")] = "0-2",
    further: Annotated[str, typer.Option(help="Seeds of the best five besides; none if empty.")] = "3-4",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
) -> None:
    if task not in BOARDS:
        raise typer.BadParameter(f"{task!r} has no leaderboard; expected {' or '.join(BOARDS)}.")
    board = BOARDS[task]
    first, *others = parse_seeds(seeds)
    tried: dict[str, list[RunRequest]] = {model: [] for model in zoo.names()}

    def run(requests: list[RunRequest]) -> list[RunRequest]:
        run_many(requests, workers, engine)  # type: ignore[arg-type]
        return requests

    for rate in board.rates:
        unsolved = [model for model, runs in tried.items() if all(board.score(run) < board.solved for run in runs)]
        for request in run([board.request(model, first, rate) for model in unsolved]):
            tried[request.model].append(request)
    best = {model: board.rates[runs.index(max(runs, key=board.score))] for model, runs in tried.items()}
    for seed in others:
        for request in run([board.request(model, seed, rate) for model, rate in best.items()]):
            tried[request.model].append(request)

    def mean_score(model: str) -> float:
        return mean(board.score(board.request(model, seed, best[model])) for seed in (first, *others))

    leaders = sorted(best, key=mean_score, reverse=True)[:TOP] if further else []
    for seed in parse_seeds(further) if further else ():
        for request in run([board.request(model, seed, best[model]) for model in leaders]):
            tried[request.model].append(request)
    print(tables_text([resolve(run).record_path for runs in tried.values() for run in runs]))


if __name__ == "__main__":
    start(command)
