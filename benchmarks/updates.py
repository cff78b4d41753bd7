"""Time one update of every memory in the networks of the real tasks: ``python benchmarks/updates.py``.

An update is what training does with a batch: forward, loss, backward, optimiser. Memories take turns in one run, so
that what else the machine does falls on all of them alike. Needs the data, see ``mooring data``, and an idle machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mooring.suite import records
from mooring.suite.bench.measure import keep_freed_memory, seconds
from mooring.suite.train import get_experiment

# A set of each kind: what it is trained with is the preset's.
SETS = (
    *(("molecules", name) for name in ("esol", "freesolv", "lipo", "bace")),
    ("peptides", "func"),
    *(("nodes", name) for name in ("minesweeper", "tolokers")),
)
# The network alone, and the network with the parameters of a memory in an MLP.
ALONE, WITHOUT = "plain", "none"
TITLE = "An update of the network with a memory, over one without"
CAPTION = (
    "Ratios of minimum times measured in one run, rounds taking turns, one thread. An update is forward, loss, "
    "backward and optimiser on one batch of training. Over no memory: the parameters of a memory are spent in an MLP "
    "that sees one node at a time. Over the plain network: nothing is in their place."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "results" / "bench")
    parser.add_argument("--repeats", type=int, default=15, help="rounds of two updates each")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    rows: list[dict[str, Any]] = []
    for task, dataset in SETS:
        rows += compare(task, dataset, arguments.repeats)
        record = {"schema": 1, "kind": "bench", "name": "updates", "title": TITLE, "caption": CAPTION, "rows": rows}
        records.write(arguments.out / "updates.json", record)
    for row in rows:
        print(*(f"{value:.2f}" if isinstance(value, float) else value for value in row.values()), sep="\t")


def compare(task: str, dataset: str, repeats: int) -> list[dict[str, Any]]:
    """One row per memory of the task."""
    kind = get_experiment(task)
    config = kind.presets["full"].but(dataset=dataset)
    models = (ALONE, *kind.models)
    found = seconds({model: update(kind(config, model, seed=0)) for model in models}, repeats)
    return [
        {
            "set": dataset,
            "memory": kind(config, model, seed=0).describe()["title"],
            "over_no_memory": found[model].minimum / found[WITHOUT].minimum,
            "over_plain_network": found[model].minimum / found[ALONE].minimum,
            "noise": found[model].median / found[model].minimum,
        }
        for model in models
    ]


def update(experiment: Any) -> Callable[[], None]:
    """What takes one step on the first batch, again and again."""
    torch.manual_seed(0)
    net = experiment.build().train()
    batch = experiment.train_batch(0, 0)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss, _ = experiment.loss(net, batch, 0)
        loss.backward()
        optimiser.step()

    return run


if __name__ == "__main__":
    main()
