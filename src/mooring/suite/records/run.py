"""Writing records: atomically and with their provenance; and the record of one training."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mooring.suite.files import write_atomic
from mooring.suite.records.reader import read
from mooring.suite.records.record import SCHEMA, RecordError

PACKAGES = ("mooring", "torch", "torch_geometric", "lightning", "numpy")

CODE = (":/src/*.py", ":/experiments/*.py")
# In git's syntax: everything but these.
NO_CODE = tuple(f":(top,exclude){pattern}" for pattern in ("results", "docs", "*.md"))


def to_text(content: Mapping[str, Any]) -> str:
    """Return a record as its file holds it. Non-finite floats are NaN and Infinity, as Python's json reads them."""
    return json.dumps({"schema": SCHEMA, **content}, indent=1) + "\n"


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record with its provenance, whole or not at all."""
    origin = {"versions": versions() | content.get("versions", {}), "git_commit": git_commit()}
    write_atomic(path, to_text({**content, **origin}))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide the numbers."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def git_commit() -> str:
    """Return the commit of this code, with ``-dirty`` if the code differs from it; ``unknown`` outside a clone.

    Files that cannot change a number do not count: neither prose nor records, or every record of a batch but the first
    would be dirty. A module that was never added to git does count.
    """
    folder = Path(__file__).parent
    # Checked first because an installed copy may be inside a clone of something else.
    if not _git(folder, "ls-files", Path(__file__).name):
        return "unknown"
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", *NO_CODE)
    added = _git(folder, "ls-files", "--others", "--exclude-standard", "--", *CODE)
    # If git gives no answer, something may have changed.
    if not commit or changed is None or added is None:
        return "unknown"
    return f"{commit}-dirty" if changed or added else commit


def unknown_commits(folder: Path, commits: Iterable[str]) -> set[str]:
    """Return the commits that the clone of this code does not have.

    Return an empty set if that cannot be decided: for records outside this clone, and in a clone that is shallow or has
    none of the commits.
    """
    code = Path(__file__).parent
    clones = {_git(place, "rev-parse", "--show-toplevel") for place in (code, folder)}
    ours = len(clones) == 1 and None not in clones and _git(code, "ls-files", Path(__file__).name)
    if not ours or _git(code, "rev-parse", "--is-shallow-repository") != "false":
        return set()
    named = set(commits)
    gone = {commit for commit in named if _git(code, "cat-file", "-t", commit) != "commit"}
    return set() if gone == named else gone


@dataclass(frozen=True)
class RunRecord:
    """One run: what was run and what came out.

    Args:
        metrics: ``best`` (the selected epoch's row), ``final`` (``Experiment.finish``) and ``epochs`` (all rows).
        selected_epoch: epoch, counted from 0, whose weights were selected.
        wall_seconds: training time, summed over resumes.
        parameters: ``total`` and ``memory`` (those under ``net.memory``).
        data, code: hashes of the files it read and of user code (:class:`~mooring.suite.records.Identity`); None in a
            record from before there were any.
        title, order: what tables call the model, and its place among the others (``Experiment.describe``).
        changed: the fields that differ from the preset, each with the preset's own value; None if not recorded.
        options: the options of the slot memory as it was built; None if not recorded.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    task: str
    model: str
    seed: int
    preset: str
    config: dict[str, Any]
    metrics: dict[str, Any]
    selected_epoch: int
    diagnostics: dict[str, Any] = field(default_factory=dict)
    wall_seconds: float = 0.0
    parameters: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str = "unknown"
    devices: int = 1
    accelerator: str = "cpu"
    data: str | None = None
    code: dict[str, str] | None = None
    title: str | None = None
    order: int | None = None
    changed: dict[str, Any] | None = None
    options: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Return the facts of the run's :class:`~mooring.suite.records.Identity`."""
        config = {**self.config, "devices": self.devices, "accelerator": self.accelerator}
        named = {name: getattr(self, name) for name in ("task", "model", "seed", "data", "code")}
        return {**named, "config": config}

    def to_text(self) -> str:
        """Return the file's text."""
        return to_text({"kind": "run", **dataclasses.asdict(self)})

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        write_atomic(path, self.to_text())

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read a record file."""
        record = read(path, remedy="Delete it and run again.")
        if record.kind != "run":
            raise RecordError(f"{path}: a record of kind {record.kind!r}. Delete it or use another --out.", path)
        content = {name: value for name, value in record.data.items() if name not in ("schema", "kind")}
        try:
            # Through JSON, in which pydantic takes an object for a dataclass however strict it is.
            run: RunRecord = TypeAdapter(cls).validate_json(json.dumps(content))
        except ValidationError as error:
            fault = error.errors()[0]
            name = ".".join(map(str, fault["loc"]))
            raise record.error(f"field '{name}': {fault['msg']}, got {fault['input']!r:.80}.") from error
        for name in run.metrics["best"]:
            record.need("metrics", "best", name, kind=(int, float), called="a number")
        return run


def record_path(out: Path, task: str, preset: str, model: str, seed: int) -> Path:
    """Return where a run's record is; its working state is in the folder of the same name without ``.json``.

    A model's name may be an import name, whose colon Windows does not allow in a file name:

    >>> record_path(Path("runs"), "two-radius", "tiny", "my_vn:counted_mean", 0).name
    'my_vn@counted_mean-seed0.json'
    """
    # Whatever else a file name may not hold is percent-encoded, "@" too, so that no two models share a file.
    safe = quote(model, safe="+ ").replace("%3A", "@")
    return Path(out) / task / preset / f"{safe}-seed{seed}.json"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git, or None if it fails. Git takes no locks, since many runs call it at the same time."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
