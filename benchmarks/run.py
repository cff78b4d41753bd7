"""Measure the committed speed records: ``python benchmarks/run.py``, on a machine that does nothing else."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mooring.suite import records
from mooring.suite.bench import bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "results" / "bench")
    out = parser.parse_args().out
    for sweep in ("none", "nodes", "slots"):
        bench(console=Console(width=180), sweep=sweep, save=partial(write, out))


def write(folder: Path, record: dict[str, Any]) -> None:
    records.write(folder / f"{record['name']}.json", record)


if __name__ == "__main__":
    main()
