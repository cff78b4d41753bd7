"""Publish records, or unpack published ones: ``python -m mooring.suite.records publish runs results``."""

from __future__ import annotations

import argparse
from pathlib import Path

from mooring.suite.records.publishing import publish, unpack
from mooring.suite.terminal import explained


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m mooring.suite.records", description=__doc__)
    parser.add_argument("command", choices=("publish", "unpack"))
    parser.add_argument("source", type=Path, help="the folder to read; for unpack also one board of it")
    parser.add_argument("target", type=Path, help="the folder to write")
    options = parser.parse_args(arguments)
    command = publish if options.command == "publish" else unpack
    explained(lambda: [print(path) for path in command(options.source, options.target)])


if __name__ == "__main__":
    main()
