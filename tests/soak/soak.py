"""`make soak`: everything that takes longer than a test may, side by side on the cores there are, into one record.

Each part is a process with a record of its own under runs/_soak; a soak that was stopped goes on where it stopped. The
record says what was tried, how often, and what went wrong; the exit code is 1 if
anything did or a part is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kills import TASKS
from parts import PARTS, ROOT, commit, write_json

from mooring.suite.records import SCHEMA, versions

HERE = Path(__file__).parent
RECORD = ROOT / "results" / "reliability" / "soak.json"


def commands(given: argparse.Namespace) -> list[list[str]]:
    """The parts as commands, the longest first."""
    out = ["--out", str(given.parts)]
    seed = ["--seed", str(given.seed)]
    each, more = divmod(given.kills, len(TASKS))
    return [
        *(
            ["kills.py", "--task", task, "--kills", str(each + (at < more)), *seed, *out]
            for at, task in enumerate(TASKS)
        ),
        *(
            ["generated.py", "--inputs", str(given.inputs), "--shard", f"{at}/{given.shards}", *seed, *out]
            for at in range(given.shards)
        ),
        ["kernels.py", "--inputs", str(max(given.inputs // 100, 1)), *seed, *out],
        ["reports.py", *out],
        *([["sanitizers.py", *out]] if shutil.which("c++") else []),
    ]


def run(command: list[str]) -> int:
    """Run one part, its output passed on when it is done."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    print(f"$ {' '.join(command)}\n{done.stdout}", flush=True)
    return done.returncode


def collect(folder: Path, seed: int) -> dict[str, Any]:
    """The counts of all parts that this code has written with this seed."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    parts = [part for part in found if part["git_commit"] == commit() and part["what"].get("seed", seed) == seed]
    generated, tried, failures = Counter[str](), Counter[str](), []
    kills: dict[str, Any] = {"tasks": {}, "kills": 0, "runs": 0, "different": 0}
    reports = {"kinds": 0, "tracebacks": 0}
    kernels = {"inputs": 0, "wrong": 0}
    sanitizers = {"tests": 0, "errors": 0}
    for part in parts:
        state, kind = part["state"], part["what"]["what"]
        if kind == "generated":
            generated.update(state["counts"])
            tried.update(state["tried"])
            failures += state["failures"]
        elif kind == "kills":
            kills["tasks"][part["what"]["task"]] = state["kills"]
            kills["kills"] += state["kills"]
            kills["runs"] += state["runs"]
            kills["different"] += len(state["different"])
            failures += [{"task": part["what"]["task"], **one} for one in state["different"]]
        elif kind == "kernels":
            kernels = state["counts"]
            failures += state["failures"]
        elif kind == "sanitizers":
            sanitizers = {"tests": state["tests"], "errors": len(state["errors"])}
            failures += [{"native": error} for error in state["errors"]]
        else:
            reports = {"kinds": len(state["kinds"]), "tracebacks": len(state["tracebacks"])}
            failures += [{"record": name, "fault": fault} for name, fault in state["tracebacks"].items()]
    return {
        "parts": len(parts),
        "counts": {
            "generated": dict(generated),
            "tried": dict(tried),
            "kills": kills,
            "kernels": kernels,
            "reports": reports,
            "sanitizers": sanitizers,
        },
        "failures": failures,
        "seconds": round(sum(part["state"]["seconds"] for part in parts), 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=4, help="processes that share the inputs")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--parts", type=Path, default=PARTS, help="folder of the parts' records")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    commit()  # asked now: code that changes during the soak is other code, and its parts are left out
    with ThreadPoolExecutor(given.workers) as pool:
        codes = list(pool.map(run, commands(given)))
    total = collect(given.parts, given.seed)
    passed = not any(codes) and total["parts"] == len(codes)
    record = {
        "schema": SCHEMA,
        "kind": "soak",
        "what": "generated inputs, interpreted kernels, C++ under sanitizers, killed trainings and broken records",
        "seed": given.seed,
        "passed": passed,
        **total,
        "wall_seconds": round(time.monotonic() - started, 1),
        "git_commit": commit(),
        "versions": versions(),
    }
    write_json(given.out, record)
    print(f"{json.dumps(record['counts'])}; record: {given.out}")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
