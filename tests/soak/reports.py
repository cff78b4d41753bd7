"""Feed `mooring report` with broken records, one command each: it may refuse them, but not fall over."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "suite" / "report")]

from parts import PARTS, Part  # noqa: E402

Hostile = Callable[[], Iterator[tuple[str, bytes]]]
COMMAND = Path(sys.executable).with_name("mooring")
SECONDS = 120


def generator() -> Hostile:
    """``hostile_records`` of the report's own tests: names and contents of files."""
    try:
        from hostile import hostile_records
    except ImportError:
        sys.exit("reports: tests/suite/report/hostile.py is missing, so no broken record was tried. Restore the file.")
    return hostile_records


def fault(content: bytes) -> str:
    """What went wrong with one record in a folder of its own; empty if the command ended as it should."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records" / "record.json"
        path.parent.mkdir()
        path.write_bytes(content)
        command = [str(COMMAND), "report", str(path.parent), "--out", str(Path(folder) / "report.html")]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SECONDS, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return f"not done after {SECONDS} s"
    if "Traceback (most recent call last)" in done.stderr + done.stdout:
        return done.stderr.strip().splitlines()[-1][:200]
    # 0: shown, 2: refused with a message. A signal is negative.
    return "" if done.returncode in (0, 1, 2) else f"exit code {done.returncode}"


def soak(hostile: Hostile, part: Part | None) -> dict[str, Any]:
    """Try every kind that was not tried before."""
    state = (part.load() if part is not None else None) or {"kinds": [], "tracebacks": {}, "seconds": 0.0}
    for name, content in hostile():
        if name in state["kinds"]:
            continue
        started = time.monotonic()
        found = fault(content)
        if found:
            state["tracebacks"][name] = found
        state["kinds"].append(name)
        state["seconds"] = round(state["seconds"] + time.monotonic() - started, 1)
        if part is not None:
            part.save(state)
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PARTS, help="folder of the record")
    given = parser.parse_args()
    part = Part(given.out / "reports.json", {"what": "reports"})
    state = soak(generator(), part)
    print(f"{len(state['kinds'])} kinds of broken records, {len(state['tracebacks'])} tracebacks; record: {part.path}")
    for name, found in state["tracebacks"].items():
        print(f"  {name}: {found}")
    sys.exit(bool(state["tracebacks"]))


if __name__ == "__main__":
    main()
