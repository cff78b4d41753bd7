"""Run the benchmarks and print them as ratios."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mooring.bench import floor
from mooring.bench.gate import check_oracle
from mooring.bench.measure import seconds, step
from mooring.bench.peers import PEERS, Forward
from mooring.bench.shapes import SHAPES


def bench(
    shapes: Sequence[str] = (),
    threads: int = 2,
    repeats: int = 7,
    console: Console | None = None,
    *,
    dim: int = 128,
    slots: int = 16,
    heads: int = 4,
) -> dict[str, Any]:
    """Time every peer on every shape in one run, after the oracle has been met; return a record of ratios.

    Args:
        shapes: names of :data:`~mooring.bench.shapes.SHAPES`; all if empty.
        threads: threads of every contestant.
        repeats: rounds; the least time of each contestant counts.
        console: where the tables go as they come.
    """
    for name in shapes:
        if name not in SHAPES:
            raise ValueError(f"bench: unknown shape {name!r}; the shapes are {', '.join(SHAPES)}.")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows = []
        for name in shapes or SHAPES:
            rows += _shape(name, repeats, dim, slots, heads)
            if console is not None:
                console.print(_table(name, [row for row in rows if row["shape"] == name]))
    finally:
        torch.set_num_threads(before)
    return {
        "schema": 1,
        "kind": "bench",
        "settings": {"dim": dim, "slots": slots, "heads": heads, "threads": threads, "repeats": repeats},
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "versions": {"torch": torch.__version__},
        "rows": rows,
    }


def _shape(name: str, repeats: int, dim: int, slots: int, heads: int) -> list[dict[str, Any]]:
    batch = SHAPES[name].batch()
    error = check_oracle(batch)
    num_graphs = int(batch[-1]) + 1
    largest = int(torch.bincount(batch).max())
    x = torch.randn(batch.numel(), dim)
    rows = []
    for backward in (False, True):
        functions: dict[str, Callable[[], object]] = {
            "floor: products": floor.products(batch.numel(), dim, slots * heads, backward),
            "floor: copy": floor.copy(batch.numel(), dim),
        }
        for peer in PEERS.values():
            if peer.fits(largest, num_graphs, slots, heads):
                module = peer.build(dim, slots, heads).train()
                forward = peer.call(module)
                functions[peer.name] = step(partial(_call, forward, batch, num_graphs), module, x, backward=backward)
        times = seconds(functions, repeats)
        least = times["floor: products"] + times["floor: copy"]
        for contestant, time in times.items():
            rows.append(
                {
                    "shape": name,
                    "about": SHAPES[name].about,
                    "pass": "forward+backward" if backward else "forward",
                    "peer": contestant,
                    "times_floor": time / least,
                    "times_slots": time / times["slots"],
                    "oracle_error": error,
                }
            )
    return rows


def _call(forward: Forward, batch: Tensor, num_graphs: int, x: Tensor) -> Tensor:
    return forward(x, batch, num_graphs)


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{name}: {SHAPES[name].about}", title_justify="left")
    for column in ("", "forward / floor", "fwd+bwd / floor", "forward / slots", "fwd+bwd / slots"):
        table.add_column(column, justify="left" if not column else "right")
    for peer in dict.fromkeys(row["peer"] for row in rows):
        found = {row["pass"]: row for row in rows if row["peer"] == peer}
        cells = [
            f"{found[which][key]:.2f}"
            for key in ("times_floor", "times_slots")
            for which in ("forward", "forward+backward")
        ]
        table.add_row(peer, *cells)
    return table
