"""The record of one training: the JSON file from which its rows of every table and figure are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mooring.suite.files import write_atomic
from mooring.suite.records.file import RecordError, to_text
from mooring.suite.records.reader import read


@dataclass(frozen=True)
class RunRecord:
    """What one run was and what it gave.

    Args:
        metrics: ``best`` (the selected epoch's row), ``final`` (``Experiment.finish``) and ``epochs`` (all rows).
        selected_epoch: epoch, counted from 0, whose weights were selected.
        wall_seconds: training time, summed over resumes.
        parameters: ``total`` and ``memory`` (those under ``net.memory``).
        title, order: what tables call the model, and its place among the others (``Experiment.describe``).
    """

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
    title: str | None = None
    order: int | None = None

    def to_text(self) -> str:
        """Return the file's text."""
        return to_text({"kind": "run", **dataclasses.asdict(self)})

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        write_atomic(path, self.to_text())

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read a record file."""
        found = read(path, remedy="Delete it and run again.")
        if found.kind != "run":
            raise RecordError(f"{path}: a record of kind {found.kind!r}. Delete it or use another --out.", path)
        content = {name: value for name, value in found.data.items() if name not in ("schema", "kind")}
        try:
            record = cls(**content)
        except TypeError as error:
            raise found.error(f"{error}.") from error
        for name in content.keys() & _KINDS.keys():
            found.need(name, kind=_KINDS[name], called=" or ".join(kind.__name__ for kind in _KINDS[name]))
        return record


# What the reader of all records leaves unchecked, or lets be null.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "git_commit": (str,),
    **dict.fromkeys(("selected_epoch", "devices"), (int,)),
    **dict.fromkeys(("diagnostics", "parameters", "versions"), (dict,)),
    "wall_seconds": (int, float),
    "title": (str, type(None)),
    "order": (int, type(None)),
}


def record_path(out: Path, task: str, preset: str, model: str, seed: int) -> Path:
    """Return where a run's record lies; its working state is in the folder of the same name without ``.json``.

    A model's name may be an import name, whose colon no Windows file may have:

    >>> record_path(Path("runs"), "two-radius", "tiny", "my_vn:counted_mean", 0).name
    'my_vn@counted_mean-seed0.json'
    """
    # Whatever else a file name may not hold is percent-encoded, "@" too, so that no two models share a file.
    safe = quote(model, safe="+ ").replace("%3A", "@")
    return Path(out) / task / preset / f"{safe}-seed{seed}.json"
