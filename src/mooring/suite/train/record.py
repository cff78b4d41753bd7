"""The run record: one JSON file a run, from which every table and figure is made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mooring.suite.files import write_atomic
from mooring.suite.train.config import differing_field

SCHEMA = 1


class RecordError(ValueError):
    """A record file that cannot be read, or that belongs to another config."""


@dataclass(frozen=True)
class Record:
    """What one run was and what it gave.

    Args:
        metrics: ``best`` (the selected epoch's row), ``final`` (:meth:`Experiment.finish`) and ``epochs`` (all rows).
        selected_epoch: Epoch, counted from 0, whose weights were selected.
        wall_seconds: Training time, summed over resumes.
        parameters: ``total`` and ``memory`` (those under ``net.memory``).
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

    def to_json(self) -> str:
        """Return the file's text. Non-finite floats are written as NaN and Infinity, as Python's json reads them."""
        return json.dumps({"schema": SCHEMA, "kind": "run", **dataclasses.asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "record") -> Record:
        """Read :meth:`to_json`'s text back."""
        try:
            content = json.loads(text)
        # A number of too many digits is a ValueError too, and brackets without end overflow the stack.
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{where}: not JSON ({error}). Delete it and run again.") from error
        if not isinstance(content, dict) or content.pop("kind", None) != "run" or content.pop("schema", None) != SCHEMA:
            raise RecordError(f"{where}: not a run record of schema {SCHEMA}. Delete it or use another --out.")
        try:
            record = cls(**content)
        except TypeError as error:
            raise RecordError(f"{where}: {error}. Delete it and run again.") from error
        for name, kinds in _KINDS.items():
            value = getattr(record, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                got = f"{type(value).__name__} {value!r}"
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise RecordError(f"{where}: {name} is {got:.80}, expected {expected}. Delete it and run again.")
        return record

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        write_atomic(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record file."""
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise RecordError(f"{path}: not JSON ({error}). Delete it and run again.") from error
        return cls.from_json(text, str(path))


_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("task", "model", "preset", "git_commit"), (str,)),
    **dict.fromkeys(("seed", "selected_epoch", "devices"), (int,)),
    **dict.fromkeys(("config", "metrics", "diagnostics", "parameters", "versions"), (dict,)),
    "wall_seconds": (int, float),
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


def require_same_config(have: Mapping[str, Any], want: Mapping[str, Any], path: Path, remove: Path) -> None:
    """Refuse to go on from a record or checkpoint that was made with another config."""
    name = differing_field(want, have)
    if name is not None:
        raise RecordError(
            f"{path}: made with {name}={have.get(name, '<absent>')!r}, but this run asks for "
            f"{name}={want.get(name, '<absent>')!r}. Use another --out, or delete {remove} to start over."
        )
