"""Real graphs: one search for every memory on the first seed, by validation, and its result at all seeds.

``python experiments/real_graphs.py molecules --sets esol,freesolv --seeds 0-4``. A killed search resumes. All
searched settings stay in the records, so that the table can count them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import Annotated, Any

import typer
from recipe import RUNS, Engine, Workers, best, run, show, start

from mooring.suite.train import RunRequest, get_experiment, parse_overrides, parse_seeds, resolve

# Values of the search: a half fraction of all combinations, in which each two factors occur at all pairs of levels.
RATES = "0.001,0.003"
READOUTS = "mean,mean+sum"
DROPOUTS = "0.0,0.2"


def grid(task: str, rates: str, readouts: str, dropouts: str) -> Iterator[dict[str, str]]:
    """Yield every setting of the search; nodes have no readout, so all combinations of the other two are used."""
    choices = {"learning_rate": rates, "readout": readouts, "layer_dropout": dropouts}
    names = [name for name in choices if task != "nodes" or name != "readout"]
    for levels in product(*(enumerate(choices[name].split(",")) for name in names)):
        if len(names) < 3 or sum(number for number, _ in levels) % 2 == 0:
            yield dict(zip(names, (value for _, value in levels), strict=True))


def command(
    task: Annotated[str, typer.Argument(help="molecules, peptides or nodes.")],
    sets: Annotated[str, typer.Option(help="Comma-separated; the preset's own if empty.")] = "",
    models: Annotated[str, typer.Option(help="Comma-separated; the task's own if empty.")] = "",
    preset: Annotated[str, typer.Option(help="Preset of the task.")] = "full",
    seeds: Annotated[str, typer.Option(help="The first one chooses the setting.")] = "0-4",
    rates: Annotated[str, typer.Option(help="Learning rates to try.")] = RATES,
    readouts: Annotated[str, typer.Option(help="Readouts to try.")] = READOUTS,
    dropouts: Annotated[str, typer.Option(help="Dropouts of the layers to try.")] = DROPOUTS,
    change: Annotated[list[str] | None, typer.Option("--set", help="field=value, for every run.")] = None,
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    experiment = get_experiment(task)
    fixed = parse_overrides(change or [])
    first, *others = parse_seeds(seeds)
    chosen = models.split(",") if models else experiment.models
    defaults: Any = resolve(RunRequest(task, chosen[0], first, preset)).experiment.config
    settings = list(grid(task, rates, readouts, dropouts))

    def request(dataset: str, model: str, seed: int, setting: dict[str, str]) -> RunRequest:
        return RunRequest(task, model, seed, preset, {"dataset": dataset, **fixed, **setting}, RUNS)

    runs: list[RunRequest] = []
    for dataset in sets.split(",") if sets else [defaults.dataset]:
        tried = {model: [request(dataset, model, first, setting) for setting in settings] for model in chosen}
        runs += run(chain.from_iterable(tried.values()), workers, engine)
        setting = {model: best(settings, requests) for model, requests in tried.items()}
        runs += run(
            (request(dataset, model, seed, setting[model]) for seed in others for model in chosen), workers, engine
        )
    show(runs)


if __name__ == "__main__":
    start(command)
