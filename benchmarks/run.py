"""Measure the committed speed records: ``python benchmarks/run.py``, on a machine that does nothing else."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mooring.suite.bench import bench
from mooring.suite.files import write_atomic
from mooring.suite.train.provenance import git_commit, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "results" / "bench")
    out = parser.parse_args().out
    for sweep in ("peers", "nodes", "slots"):
        bench(console=Console(width=180), sweep=sweep, save=partial(write, out))


def write(folder: Path, record: dict[str, Any]) -> None:
    origin = {"versions": versions() | record["versions"], "git_commit": git_commit()}
    write_atomic(folder / f"{record['name']}.json", json.dumps(record | origin, indent=1) + "\n")


if __name__ == "__main__":
    main()
