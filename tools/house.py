"""Measure the size of the house: files and calls of a forward pass, files and lines, modules of the demo.

    python tools/house.py            # a table
    python tools/house.py --json     # the same as JSON, to compare two commits

A call is one of a Python function defined under src/mooring. It counts as a check if its name starts with ``check`` or
``_check``, or if it is called from a function that does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mooring"
# The demo with the smallest preset, in one process: train the default models, then write the page.
DEMO = """
import json
import sys
from pathlib import Path

sys.modules["mooring_native"] = None  # make demo installs the extra `suite` alone
from mooring.suite.cli import app
from mooring.suite.train import RunRequest, get_experiment, run_one

out = Path(sys.argv[1])
for model in get_experiment("two-radius").models:
    run_one(RunRequest("two-radius", model, 0, "tiny", out=out))
app(["report", str(out), "--out", str(out / "report.html")], standalone_mode=False)
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "mooring"]), file=sys.stderr)
"""


class Calls:
    """Count Python calls into the package while active."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.total = self.checks = 0
        self._depth_of_check = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(SOURCE)):
            return
        is_check = code.co_name.lstrip("_").startswith("check")
        if event == "return":
            self._depth_of_check -= is_check
            return
        self._depth_of_check += is_check
        self.files.add(code.co_filename)
        self.total += 1
        self.checks += self._depth_of_check > 0


def measure_forward(backend: str) -> dict[str, Any]:
    """Return files, calls and checks of one forward pass of the default module on 64 small graphs."""
    sys.path.insert(0, str(SOURCE.parent))
    import torch

    from mooring import SlotVirtualNode, ops

    torch.manual_seed(0)
    memory, x, batch = SlotVirtualNode(64), torch.randn(64 * 17, 64), torch.arange(64).repeat_interleave(17)
    with ops.use_backend(backend):
        memory(x, batch)  # imports on first use do not count
        with Calls() as calls:
            memory(x, batch)
    return {"files": len(calls.files), "calls": calls.total, "checks": calls.checks}


def count_lines(pattern: str) -> dict[str, int]:
    """Return files and lines of the tracked files that match a pattern of git."""
    files = _git("ls-files", pattern)
    return {"files": len(files), "lines": sum(len((ROOT / name).read_bytes().splitlines()) for name in files)}


def demo_modules() -> list[str]:
    """Return the modules of the package that the demo imports."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-c", DEMO, folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    modules: list[str] = json.loads(done.stderr.strip().splitlines()[-1])
    return modules


def measure() -> dict[str, Any]:
    """Return all figures."""
    tracked = _git("ls-files")
    records = [name for name in tracked if name.startswith("results/")]
    return {
        "forward, plain": measure_forward("plain"),
        "forward, tiles": measure_forward("tiles"),
        "src": count_lines("src/*.py"),
        "tests": count_lines("tests/*.py"),
        "demo": {"modules": len(demo_modules())},
        "tracked": {"files": len(tracked)},
        "results": {"files": len(records), "bytes": sum((ROOT / name).stat().st_size for name in records)},
    }


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    figures = measure()
    if parser.parse_args().json:
        print(json.dumps(figures, indent=1))
        return
    for subject, values in figures.items():
        print(f"{subject:16} " + ", ".join(f"{value:,} {name}" for name, value in values.items()))


if __name__ == "__main__":
    main()
