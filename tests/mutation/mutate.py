"""Measure the tests: plant small faults in the code one at a time, and count those that no test notices.

A seeded sample of mutants, each run in a fork of one process that has torch imported and mooring not, so that a mutant
costs its tests and no more. mutmut leaves decorated functions alone, so it would pass over every registered op, and
cosmic-ray starts an interpreter per mutant with one test command for all files; hence this script.

    python tests/mutation/mutate.py --sample 300 --out results/reliability/mutation.json
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import itertools
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
PAIRS = "Lt LtE, Gt GtE, Eq NotEq, In NotIn, Is IsNot, Add Sub, Mult Div, LShift RShift, BitAnd BitOr, And Or"
PAIRS += ", min max, amin amax, minimum maximum, all any, argmin argmax, floor ceil"
TWINS = {"FloorDiv": "Mult", "Mod": "Mult", "Pow": "Mult"}
for one, other in map(str.split, PAIRS.split(", ")):
    TWINS |= {one: other, other: one}


@dataclass(frozen=True)
class Mutant:
    """One replaced stretch of a file."""

    path: str
    line: int
    source: str
    old: str

    @property
    def diff(self) -> str:
        """The changed lines alone, stripped: short, and the same wherever the lines move to."""
        lines = difflib.unified_diff(self.old.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in list(lines)[2:] if not line.startswith("@@"))


def mutants(source: str, path: str = "") -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its nodes."""
    raw, tree = source.encode(), ast.parse(source)
    starts = [0, *itertools.accumulate(len(line) for line in raw.splitlines(keepends=True))]
    for node, text in _sites(tree):
        start, stop = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        # Swapped arguments may be equal, and what is returned may be None already.
        if text not in (_text(node), ast.unparse(node)):
            changed = (raw[:start] + text.encode() + raw[stop:]).decode()
            with suppress(SyntaxError):
                ast.parse(changed)
                yield Mutant(path, node.lineno, changed, source)


def _sites(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Nodes, each with a text to put in its place."""
    yield from _replacements(node)
    for name, child in ast.iter_fields(node):
        # Annotations and decorators hold no behaviour of ours; the pieces of an f-string have no position before 3.12.
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST):
                yield from _sites(each)


def _replacements(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                yield node, _text(ast.Compare(left, [*ops[:place], _twin(op), *ops[place + 1 :]], comparators))
        case ast.BinOp(left, op, right) if type(op).__name__ in TWINS:
            yield node, _text(ast.BinOp(left, _twin(op), right))
        case ast.AugAssign(target, op, value) if type(op).__name__ in TWINS:
            yield node, ast.unparse(ast.AugAssign(target, _twin(op), value))
        case ast.BoolOp(op, values):
            yield node, _text(ast.BoolOp(_twin(op), values))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, _text(operand)
        case ast.Constant(bool(value)):
            yield node, str(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, repr(value + 1)
        case ast.Call(func, arguments, keywords):
            for place in range(len(keywords)):
                yield node, _text(ast.Call(func, arguments, keywords[:place] + keywords[place + 1 :]))
            if len(arguments) > 1 and not any(isinstance(each, ast.Starred) for each in arguments):
                yield node, _text(ast.Call(func, [arguments[1], arguments[0], *arguments[2:]], keywords))
            match func:
                case ast.Name(name) if name in TWINS:
                    yield func, TWINS[name]
                case ast.Attribute(value, name) if name in TWINS:
                    yield func, ast.unparse(ast.Attribute(value, TWINS[name]))
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Return(ast.expr()):
            yield node, "return None"
    test = getattr(node, "test", None)
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(test, ast.Compare | ast.UnaryOp):
        yield test, f"(not {_text(test)})"


def _twin(op: ast.AST) -> ast.AST:
    return getattr(ast, TWINS[type(op).__name__])()


def _text(node: ast.AST) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


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
            # A mutant's bytecode would outlive it.
            sys.dont_write_bytecode = mutated
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1" if mutated else ""
            code = int(importlib.import_module("pytest").main([*PYTEST, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    stop = time.monotonic() + limit
    while time.monotonic() < stop:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) in (0, 5)  # 5: nothing to run, as in a file without doctests
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


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


def examine(chosen: Sequence[Mutant], depth: int) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether it survived, in a copy of the project whose own tests pass."""
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
                limits[package] = 30 + 3 * (time.monotonic() - start)
            yield mutant, survives(root, mutant, depth, limits[package])


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=300, help="how many mutants, shared equally by the packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="of src/mooring")
    parser.add_argument("--stages", type=int, default=3, help="how many of a file's three groups of tests to run")
    parser.add_argument("--again", action="store_true", help="run the survivors of the record only, and update it")
    parser.add_argument("--resume", action="store_true", help="go on where a stopped run of this code and seed was")
    parser.add_argument("--join", nargs="+", type=Path, help="records of single packages, run apart: make one of them")
    parser.add_argument("--out", type=Path, default=ROOT / "results/reliability/mutation.json")
    options = parser.parse_args()
    if options.join:
        joined = join([json.loads(path.read_text()) for path in options.join])
        options.out.write_text(json.dumps(joined, indent=1, ensure_ascii=False) + "\n")
        return

    record = {"schema": 1, "kind": "mutation", "seed": options.seed, "sample": 0, "killed": 0, "share_killed": 1.0}
    record |= {"git_commit": commit(), "equivalent": [], "survivors": []}
    chosen = []
    if options.again:
        record = json.loads(options.out.read_text())
        old = {(each["file"], each["diff"]) for each in record["survivors"]}
        # A survivor whose code has changed since is no longer part of the sample.
        everything = {(each.path, each.diff): each for package in options.packages for each in possible(package)}
        chosen = [everything[key] for key in sorted(old & {*everything})]
        # Tests written for the survivors say little about other faults: the first count is the honest one.
        record.setdefault("killed_at_first", record["killed"])
        record |= {"sample": record["sample"] - len(old), "survivors": []}
    for place, package in enumerate([] if options.again else options.packages):
        share = (options.sample + place) // len(options.packages)
        chosen += random.Random(options.seed).sample(possible(package), share)
    reasons = {(each["file"], each["diff"]): each["reason"] for each in json.loads(EQUIVALENT.read_text())}
    tried = [mutant for mutant in chosen if (mutant.path, mutant.diff) not in reasons]
    for each in chosen:
        if reason := reasons.get((each.path, each.diff)):
            record["equivalent"].append({"file": each.path, "diff": each.diff, "reason": reason})
    record |= {"planned": record.get("planned", options.sample)}
    if options.resume:
        before = json.loads(options.out.read_text())
        for field in ("seed", "git_commit", "planned"):
            if before.get(field, record[field]) != record[field]:
                sys.exit(f"mutate: {options.out} has {field}={before[field]} but this is {record[field]}. Start anew.")
        record |= before
        tried = tried[before["killed"] + len(before["survivors"]) :]
    else:
        record["sample"] += len(chosen) - len(tried)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, (mutant, survived) in enumerate(examine(tried, options.stages), 1):
        print(f"{number}/{len(tried)} {'SURVIVED' if survived else 'killed'} {mutant.path}:{mutant.line}", flush=True)
        record["killed"] += not survived
        record["sample"] += 1
        if survived:
            print(mutant.diff, flush=True)
            record["survivors"].append({"file": mutant.path, "line": mutant.line, "diff": mutant.diff})
        record["share_killed"] = round(record["killed"] / (record["killed"] + len(record["survivors"])), 4)
        options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(f"{record['killed']} killed, {len(record['survivors'])} survived, {len(record['equivalent'])} equivalent")


if __name__ == "__main__":
    main()
