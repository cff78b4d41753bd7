"""Measure the tests: plant small faults in the code one at a time, and count those that no test notices.

A seeded sample of mutants, each run in a fork of one process that has torch imported and mooring not, so that a mutant
costs its tests and no more. mutmut leaves decorated functions alone, so it would pass over every registered op, and
cosmic-ray starts an interpreter per mutant with one test command for all files; hence this script.

    nice python tests/mutation/mutate.py --sample 300 --seed 11

Run it in a clone that nobody edits. Started again after it was stopped, it goes on where it was: until the sample is
complete its state is in a `.part` beside the record, which is taken up by the same command on the same commit.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.json")
# Packages of src/mooring; the tasks' generators stand in a folder per task.
PACKAGES = ("suite/*/data", "theory", "nn", "ops")
WARM = "torch torch_geometric.nn torch_geometric.testing lightning networkx scipy.optimize ortools.sat.python.cp_model"
WARM += " hypothesis beartype jaxtyping pytest matplotlib.pyplot typer"
# Plugins that are warm cannot be rewritten, and need not be.
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
MEMORY = 8 << 30  # bytes a test run may have: a mutant must not take the machine down
DEAR = ("carried", "projections", "compile", "distributed", "recount", "dataset", "registry", "verify")


def stages(root: Path, path: str) -> list[list[str]]:
    """Tests of a mutant of a file, in three groups: its mirror and doctests, its package's, those that build on it."""
    package, *inner = Path(path).relative_to("src/mooring").parts
    own = Path("tests", package, *inner[:-1])
    if not (root / own).is_dir():  # tests/ops is of ops/tiles as well; the back end over triton has a folder of its own
        own = next((each.relative_to(root) for each in (root / own.parent).glob(f"{own.name}_*")), own.parent)
    first = {str(own / f"test_{inner[-1].lstrip('_')}")}
    rest = {str(test.relative_to(root)) for test in (root / own).glob("**/test_*.py")}
    soon = sorted(rest - first, key=lambda test: (any(word in test for word in DEAR), test))
    late = [test for test in soon if any(word in test for word in ("compile", "export", "distributed", "_backend/"))]
    late = late if own.name != "triton_backend" else []
    # A folder inside a folder of the suite is the data of a task: the task's own tests build on it.
    task = [str(Path("tests", package, inner[0]))] if package == "suite" and len(inner) > 2 else []
    wide = {"suite": task, "ops": ["tests/nn", "tests/zoo"], "nn": ["tests/zoo"]}
    wide = [test for test in wide.get(package, []) if (root / test).is_dir()]
    return [[*(rest & first), path], [test for test in soon if test not in late], [*late, *wide]]


def passes(root: Path, tests: list[str], limit: float, *, mutated: bool) -> bool:
    """Whether tests and doctests pass. Apart: collecting doctests imports a module again, and tests hold the first."""
    doctests = [path for path in tests if path.startswith("src/")]
    groups = [[path for path in tests if path not in doctests], doctests]
    return all(not group or _passes(root, group, limit, mutated=mutated) for group in groups)


def _passes(root: Path, tests: list[str], limit: float, *, mutated: bool) -> bool:
    """Whether the tests pass in a fork; one that runs out of time does not."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            log = root.with_name("log").open("w")
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            os.chdir(root)
            sys.path.insert(0, str(root / "src"))
            # A plugin of pytest may have imported mooring before the fork.
            for name in [name for name in sys.modules if name.partition(".")[0] == "mooring"]:
                del sys.modules[name]
            # A mutant's bytecode would outlive it.
            sys.dont_write_bytecode = mutated
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1" if mutated else ""
            code = int(importlib.import_module("pytest").main([*PYTEST, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    stop, done = time.monotonic() + limit, 0
    try:
        while time.monotonic() < stop:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) in (0, 5)  # 5: nothing to run, as in a file without doctests
            time.sleep(0.02)
        return False
    finally:
        if not done:  # out of time, or this process is being stopped
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def survives(root: Path, mutant: Mutant, depth: int, limit: float) -> bool:
    """Whether every test passes with the mutant in place."""
    file = root / mutant.path
    stat = file.stat()
    file.write_text(mutant.source)
    try:
        return all(not tests or passes(root, tests, limit, mutated=True) for tests in stages(root, mutant.path)[:depth])
    finally:
        file.write_text(mutant.old)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def examine(chosen: Sequence[Mutant], depth: int) -> Iterator[tuple[Mutant, bool, float]]:
    """Each mutant, whether it survived and its seconds, in a copy of the project whose own tests pass."""
    # CI: Hypothesis shows every mutant the same examples. No plugins: loading them would cost more than most tests.
    os.environ |= {"CI": "1", "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in WARM.split():
        with suppress(ImportError):
            importlib.import_module(name)
    limits: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder, "tree")
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".git", ".venv", "runs", "site", "__pycache__"))
        os.environ["PYTHONPATH"] = str(root / "src")
        for mutant in chosen:
            package = mutant.path.split("/")[2]
            if package not in limits:
                start = time.monotonic()
                paths = [each.path for each in chosen if each.path.split("/")[2] == package]
                tests = dict.fromkeys(test for path in paths for stage in stages(root, path)[:depth] for test in stage)
                if not passes(root, list(tests), 3600.0, mutated=False):
                    sys.exit("mutate: the tests fail without any mutant.\n" + root.with_name("log").read_text()[-5000:])
                took = time.monotonic() - start
                limits[package] = 30 + 3 * took
                print(f"{package}: the tests pass without a mutant, in {took:.0f} s", flush=True)
            start = time.monotonic()
            survived = survives(root, mutant, depth, limits[package])
            yield mutant, survived, time.monotonic() - start


def possible(package: str) -> list[Mutant]:
    """Every mutant of a package, or of all packages that a pattern names."""
    files = sorted(file for folder in (ROOT / "src/mooring").glob(package) for file in folder.rglob("*.py"))
    return [mutant for file in files for mutant in mutants(file.read_text(), str(file.relative_to(ROOT)))]


def commit() -> str:
    """The commit of the code, ``-dirty`` if it is not quite that; asked of git, as mooring is not to be imported."""
    described = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(described, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def join(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of several whose packages were run apart; they must be of one commit and seed."""
    for field in ("seed", "git_commit"):
        if len({record[field] for record in records}) > 1:
            sys.exit(f"mutate: the records differ in {field}. Join those of one run.")
    joined: dict[str, Any] = dict(records[0])
    for record in records[1:]:
        for field in ("sample", "killed", "equivalent", "survivors"):
            joined[field] = joined[field] + record[field]
    joined["planned"] = joined["sample"]
    joined["share_killed"] = round(joined["killed"] / (joined["killed"] + len(joined["survivors"])), 4)
    return joined


def draw(sample: int, seed: int, packages: Sequence[str]) -> list[Mutant]:
    """A sample that the packages share equally, mixed, so that the time of the first foretells that of the rest."""
    chosen = []
    for place, package in enumerate(packages):
        share = (sample + place) // len(packages)
        chosen += random.Random(seed).sample(possible(package), share)
    random.Random(seed).shuffle(chosen)
    return chosen


def survivors_of(record: dict[str, Any], packages: Sequence[str]) -> list[Mutant]:
    """Mutants that a record lists as survivors, without those whose code has changed since."""
    listed = {(each["file"], each["diff"]) for each in record["survivors"]}
    everything = {(each.path, each.diff): each for package in packages for each in possible(package)}
    return [everything[key] for key in sorted(listed & {*everything})]


class Run:
    """A record that grows by one mutant at a time, whole on disk after each.

    Args:
        out: where the record goes when it is complete; until then it is in a file beside it.
        what: settings and commit; a file left by another run is not taken up.
        record: what it starts from.
    """

    def __init__(self, out: Path, what: dict[str, Any], record: dict[str, Any]) -> None:
        self.out, self.part, self.what = out, out.with_name(out.name + ".part"), what
        self.state: dict[str, Any] = {"what": what, "record": record, "done": 0, "seconds": 0.0}
        with suppress(OSError, ValueError, KeyError):
            left = json.loads(self.part.read_text())
            self.state = left if left["what"] == what else self.state
        self.record, self.done = self.state["record"], self.state["done"]

    def add(self, mutant: Mutant, survived: bool, seconds: float) -> None:
        record = self.record
        record["killed"] += not survived
        record["sample"] += 1
        if survived:
            record["survivors"].append({"file": mutant.path, "line": mutant.line, "diff": mutant.diff})
        record["share_killed"] = round(record["killed"] / (record["killed"] + len(record["survivors"])), 4)
        self.done += 1
        self.state |= {"done": self.done, "seconds": round(self.state["seconds"] + seconds, 1)}
        _write(self.part, self.state)

    def progress(self, total: int) -> str:
        """How many are done, how many of them were noticed, and when the last one will be."""
        left = self.state["seconds"] / self.done * (total - self.done)
        end = datetime.now() + timedelta(seconds=left)
        noticed = f"{100 * self.record['share_killed']:.1f} % noticed"
        return f"{self.done}/{total}, {noticed}, about {left / 3600:.2f} h left, until {end:%a %H:%M}"

    def close(self) -> None:
        _write(self.out, self.record)
        self.part.unlink(missing_ok=True)


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all; mooring's own way of doing so is not to be imported here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=300, help="how many mutants, shared equally by the packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="of src/mooring")
    parser.add_argument("--stages", type=int, default=3, help="how many of a file's three groups of tests to run")
    parser.add_argument("--again", action="store_true", help="run the survivors of the record only, and update it")
    parser.add_argument("--join", nargs="+", type=Path, help="records of single packages, run apart: make one of them")
    parser.add_argument("--out", type=Path, default=ROOT / "results/reliability/mutation.json")
    options = parser.parse_args()
    if options.join:
        _write(options.out, join([json.loads(path.read_text()) for path in options.join]))
        return

    what = {name: getattr(options, name) for name in ("sample", "seed", "stages", "again")}
    what |= {"packages": [*options.packages], "git_commit": commit()}
    if options.again:
        record = json.loads(options.out.read_text())
        chosen = survivors_of(record, options.packages)
        # Tests written for the survivors say little about other faults: the first count is the honest one.
        record.setdefault("killed_at_first", record["killed"])
        record |= {"sample": record["sample"] - len(record["survivors"]), "survivors": []}
    else:
        record = {"schema": 1, "kind": "mutation", "seed": options.seed, "sample": 0, "planned": options.sample}
        record |= {"killed": 0, "share_killed": 1.0, "git_commit": commit(), "equivalent": [], "survivors": []}
        chosen = draw(options.sample, options.seed, options.packages)
    reasons = {(each["file"], each["diff"]): each["reason"] for each in json.loads(EQUIVALENT.read_text())}
    tried = [mutant for mutant in chosen if (mutant.path, mutant.diff) not in reasons]
    record["sample"] += len(chosen) - len(tried)
    for each in chosen:
        if reason := reasons.get((each.path, each.diff)):
            record["equivalent"].append({"file": each.path, "diff": each.diff, "reason": reason})
    run = Run(options.out, what, record)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as for Ctrl-C: the copy of the project is removed
    for mutant, survived, seconds in examine(tried[run.done :], options.stages):
        run.add(mutant, survived, seconds)
        fate = f"{'SURVIVED' if survived else 'killed'} {mutant.path}:{mutant.line} in {seconds:.0f} s"
        print(f"{run.progress(len(tried))}: {fate}", *([mutant.diff] if survived else []), sep="\n", flush=True)
    run.close()
    counts = (run.record["killed"], len(run.record["survivors"]), len(run.record["equivalent"]))
    print("{} killed, {} survived, {} equivalent".format(*counts))


if __name__ == "__main__":
    main()
