"""Shared code of the recipes: run the requests and print the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mooring.suite.chapters import tables_text
from mooring.suite.terminal import explained
from mooring.suite.train import RunRequest, parse_seeds, resolve, run_many

RUNS = Path(__file__).parent.parent / "runs"


def main(requests: Callable[[list[int]], Iterable[RunRequest]], default_seeds: str = "0-4") -> None:
    """Run ``requests(seeds)`` from the command line."""

    def command(
        seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = default_seeds,
        workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
        engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    ) -> None:
        runs = list(requests(parse_seeds(seeds)))
        run_many(runs, workers, engine)  # type: ignore[arg-type]
        print(tables_text([resolve(request).record_path for request in runs]))

    start(command)


def start(command: Callable[..., None]) -> None:
    """Run a recipe like the ``mooring`` command: errors are explained without a traceback."""
    explained(partial(typer.run, command))
