"""Shared code of the recipes: options, runs, searches, and the tables at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from mooring.suite.chapters import tables_text
from mooring.suite.terminal import explained
from mooring.suite.train import RunRecord, RunRequest, parse_seeds, resolve, run_many

RUNS = Path(__file__).parent.parent / "runs"
# Settings are chosen at this seed, which is in no table.
DEVELOPMENT = 100

Names = Annotated[str, typer.Option(help="Comma-separated.")]
Seeds = Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")]
Workers = Annotated[int | None, typer.Option(help="Runs at a time.")]
Engine = Annotated[str, typer.Option(help="local or ray.")]
Setting = TypeVar("Setting")


def main(requests: Callable[[list[int]], Iterable[RunRequest]], default_seeds: str = "0-4") -> None:
    """Run ``requests(seeds)`` from the command line."""

    def command(seeds: Seeds = default_seeds, workers: Workers = None, engine: Engine = "local") -> None:
        show(run(requests(parse_seeds(seeds)), workers, engine))

    start(command)


def start(command: Callable[..., None]) -> None:
    """Run a recipe like the ``mooring`` command: errors are explained without a traceback."""
    explained(partial(typer.run, command))


def run(requests: Iterable[RunRequest], workers: int | None, engine: str = "local") -> list[RunRequest]:
    """Run the requests that have no record yet; return all of them."""
    requests = list(requests)
    run_many(requests, workers, engine)  # type: ignore[arg-type]
    return requests


def show(requests: Iterable[RunRequest]) -> None:
    """Print the tables of finished runs."""
    print(tables_text([resolve(request).record_path for request in requests]))


def score(request: RunRequest) -> float:
    """Return the selection metric of a finished run, with the sign that makes higher better."""
    resolved = resolve(request)
    name, direction = resolved.experiment.select
    value = float(RunRecord.read(resolved.record_path).metrics["best"][name])
    return value if direction == "max" else -value


def best(
    settings: Sequence[Setting], tried: Sequence[RunRequest], score: Callable[[RunRequest], float] = score
) -> Setting:
    """Return the setting whose run has the highest score; of several, the first."""
    return settings[tried.index(max(tried, key=score))]
