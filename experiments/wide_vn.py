"""The ablation that the paper leaves open: one unconstrained virtual node of width M d against M slots of width d.

No cap on parameters, hidden layers of at least 128, joint decoders, and all updates: a run ends early only if it is
solved. The rate of each point is chosen at a development seed, by validation.

``python experiments/wide_vn.py --sizes 6``; ``--updates 10`` trains ten times as long, at the rate chosen
with the preset's updates. ``--equal`` runs the preset ``width`` of the same task, with equal parameters: one seed, both
rates, three widths.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from recipe import DEVELOPMENT, RUNS, Names, Seeds, Workers, best, run, show, start

from mooring.suite.train import RunRequest, get_experiment, parse_seeds

TASK = "two-radius-leaderboard"
SLOTS = ("anchored", "moored")
DECODERS = ("wide-vn-film-sum", "wide-vn-mlp-sum", "wide-vn-deep-sum", "wide-vn-mask-sum", "wide-vn-bilinear-sum")
EQUAL = ("anchored", "wide-vn-film-sum", "wide-vn-mlp-sum", "wide-vn-add")
# The preset's rate first.
RATES = (1e-3, 3e-4)
MODELS = ",".join(SLOTS + DECODERS)


def give_up_below(size: int) -> float:
    """Return the early-stop threshold, twice chance accuracy on Both; the preset's value at size 6."""
    return 2 / 36 if size == 6 else float(f"{2 / (6 * size):.2g}")


def equal(sizes: list[int], seeds: list[int]) -> list[RunRequest]:
    """Return requests with equal parameters: n/2, n and 2n states, both rates."""
    return [
        RunRequest(
            TASK,
            model,
            seed,
            "width",
            {"num_identifiers": size, "slots": slots, "hopeless_both": give_up_below(size)} | at_rate(rate),
            RUNS,
        )
        for size in sizes
        for seed in seeds
        for slots in (size // 2, size, 2 * size)
        for model in EQUAL
        for rate in RATES
    ]


def at_rate(rate: float) -> dict[str, Any]:
    return {} if rate == RATES[0] else {"learning_rate": rate}


def command(
    sizes: Annotated[str, typer.Option(help="Numbers of identifiers.")] = "6,12,24",
    models: Names = MODELS,
    seeds: Seeds = "0-2",
    updates: Annotated[int, typer.Option(help="Times the preset's updates.")] = 1,
    equal_parameters: Annotated[bool, typer.Option("--equal", help="Cap the parameters, over three widths.")] = False,
    workers: Workers = None,
) -> None:
    numbers, chosen = [int(size) for size in sizes.split(",")], parse_seeds(seeds)
    if equal_parameters:
        show(run(equal(numbers, chosen), workers))
        return
    preset: Any = get_experiment(TASK).presets["wide"]
    length: dict[str, Any] = {} if updates == 1 else {"epochs": updates * preset.epochs}
    runs = []
    for size in numbers:
        point: dict[str, Any] = {"num_identifiers": size, "slots": size}
        for model in models.split(","):
            tried = [RunRequest(TASK, model, DEVELOPMENT, "wide", point | at_rate(rate), RUNS) for rate in RATES]
            runs += run(tried, workers)
            setting = point | length | at_rate(best(RATES, tried))
            runs += run((RunRequest(TASK, model, seed, "wide", setting, RUNS) for seed in chosen), workers)
    show(runs)


if __name__ == "__main__":
    start(command)
