"""Publish records, or unpack published ones: ``python -m mooring.suite.records publish runs results``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from mooring.suite.records.publishing import publish, unpack
from mooring.suite.terminal import explained


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m mooring.suite.records", description=__doc__)
    parser.add_argument("command", choices=("publish", "unpack"))
    parser.add_argument("source", type=Path, help="the folder to read; for unpack also one board of it")
    parser.add_argument("target", type=Path, help="the folder to write")
    given = parser.parse_args(arguments)
    explained(partial(_run, given.command, given.source, given.target))


def _run(command: str, source: Path, target: Path) -> None:
    for path in (publish if command == "publish" else unpack)(source, target):
        print(path)


if __name__ == "__main__":
    main()
