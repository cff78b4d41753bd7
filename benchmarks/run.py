"""Measure the committed speed records: ``python benchmarks/run.py``, on a machine that does nothing else.

Each sweep is a process of its own: measuring keeps the memory it frees, and the peers alone keep most of a machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "results" / "bench")
    out = parser.parse_args().out
    for sweep in ("peers", "nodes", "slots"):
        command = [sys.executable, "-m", "mooring", "bench", "--sweep", sweep, "--json", str(out / f"{sweep}.json")]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
