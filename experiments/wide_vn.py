"""The ablation the paper leaves open: a wide VN of total width M d against M slots of width d, at equal budgets."""

from __future__ import annotations

from typing import Annotated

import typer
from recipe import RESULTS

from mooring.suite.report import tables_text
from mooring.suite.train import RunRequest, parse_seeds, resolve, run_many

MODELS = ("anchored", "wide-vn-film-sum", "wide-vn-mlp-sum", "wide-vn-add")
# The preset's own first; the figure shows the better one of each point.
RATES = (1e-3, 3e-4)


def hopeless(size: int) -> float:
    """Twice the chance of naming one of the labels and one of six counts, to two digits but for the preset's own."""
    return 2 / 36 if size == 6 else float(f"{2 / (6 * size):.2g}")


def command(
    sizes: Annotated[str, typer.Option(help="Numbers of identifiers.")] = "6,12,24,48",
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0",
    workers: Annotated[int | None, typer.Option(help="Runs at a time.")] = None,
) -> None:
    asked = [
        RunRequest(
            "two-radius-leaderboard",
            model,
            seed,
            "width",
            {"num_identifiers": size, "slots": slots, "hopeless_both": hopeless(size)}
            | ({} if rate == RATES[0] else {"learning_rate": rate}),
            RESULTS,
        )
        for size in map(int, sizes.split(","))
        for seed in parse_seeds(seeds)
        for slots in (size // 2, size, 2 * size)
        for model in MODELS
        for rate in RATES
    ]
    run_many(asked, workers)
    print(tables_text([resolve(request).record_path for request in asked]))


if __name__ == "__main__":
    typer.run(command)
