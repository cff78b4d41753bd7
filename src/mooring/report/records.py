"""Read the record files a report is made of, and refuse the ones that would make it wrong.

A record is one JSON file with `schema` 1 and a `kind`: `run` (one training), `verify` (the theorems), `audit` (one
module measured), `bench` (speed) or `mutation` (faults planted to test the tests). The report knows nothing else of the
library, so it reads every field by name and says which file lacks which field instead of drawing an empty figure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
KINDS = ("run", "verify", "audit", "bench", "mutation")
_MISSING = object()
_REMEDY = {
    "run": "Write the record again with `mooring run {task}`.",
    "verify": "Write the record again with `mooring verify`.",
    "audit": "Write the record again with `mooring audit`.",
    "bench": "Write the record again with `mooring bench`.",
    "mutation": "Write the record again with `make mutation`.",
}


class RecordError(ValueError):
    """A record file that cannot be used; the message names the file and the field."""


@dataclass(frozen=True)
class Record:
    """One record file: its path, its kind and its JSON content.

    >>> record = Record(Path("vn-seed0.json"), "run", {"task": "two-radius", "metrics": {"best": {"label": 0.5}}})
    >>> record.number("metrics", "best", "label")
    0.5
    """

    path: Path
    kind: str
    data: Mapping[str, Any] = field(repr=False)

    def find(self, *keys: str) -> Any:
        """The value at a path of keys, or None where the path ends early or holds null."""
        value: Any = self.data
        for key in keys:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def need(self, *keys: str, kind: type | tuple[type, ...] = object, called: str = "a value") -> Any:
        """The value at a path of keys; RecordError where it is missing or of another type."""
        value: Any = self.data
        for key in keys:
            value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
            if value is _MISSING:
                raise RecordError(f"{self.path}: field '{'.'.join(keys)}' is missing. {self._remedy()}")
        # bool is an int to Python, but a flag where a number belongs is a mistake in the record.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object):
            got = f"{type(value).__name__} {value!r}"
            raise RecordError(
                f"{self.path}: field '{'.'.join(keys)}' is {got:.80}, expected {called}. {self._remedy()}"
            )
        return value

    def number(self, *keys: str) -> float:
        value = float(self.need(*keys, kind=(int, float), called="a number"))
        if not math.isfinite(value):
            raise RecordError(f"{self.path}: field '{'.'.join(keys)}' is {value}, expected a number. {self._remedy()}")
        return value

    def whole(self, *keys: str) -> int:
        return int(self.need(*keys, kind=int, called="a whole number"))

    def text(self, *keys: str) -> str:
        return str(self.need(*keys, kind=str, called="a text"))

    def flag(self, *keys: str) -> bool:
        return bool(self.need(*keys, kind=bool, called="true or false"))

    def items(self, *keys: str) -> list[Any]:
        return list(self.need(*keys, kind=list, called="a list"))

    def mapping(self, *keys: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self.need(*keys, kind=dict, called="an object")
        return value

    def part(self, value: Mapping[str, Any]) -> Record:
        """A piece of this record read by the same rules, so that its errors still name the file."""
        return Record(self.path, self.kind, value)

    @property
    def task(self) -> str:
        return self.text("task")

    @property
    def model(self) -> str:
        return self.text("model")

    @property
    def preset(self) -> str:
        return self.text("preset")

    @property
    def seed(self) -> int:
        return self.whole("seed")

    def _remedy(self) -> str:
        return _REMEDY[self.kind].format(task=self.find("task") or "TASK")


@dataclass(frozen=True)
class Records(Sequence[Record]):
    """All records of a report in a fixed order, and what was left out of it and why."""

    every: tuple[Record, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.every)

    def __getitem__(self, index: Any) -> Any:
        return self.every[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.every)

    def kind(self, kind: str) -> list[Record]:
        return [record for record in self.every if record.kind == kind]

    def runs(self, task: str, preset: str | None = None) -> list[Record]:
        """The runs of a task, of one preset if it is given."""
        wanted: Callable[[Record], bool] = lambda run: run.task == task and preset in (None, run.preset)  # noqa: E731
        return [run for run in self.kind("run") if wanted(run)]

    def presets(self, task: str) -> list[str]:
        """The presets a task was run with, the fullest first."""
        rank = {"paper": 0, "full": 1, "quick": 2}
        return sorted({run.preset for run in self.runs(task)}, key=lambda name: (rank.get(name, 3), name))


def load(sources: Iterable[Path]) -> Records:
    """Every record under the given folders (or the given files), working folders of runs left out.

    Where two sources hold the same run, the earlier source is used and the other is named in `notes`.
    """
    kept: dict[tuple[Any, ...], Record] = {}
    notes: list[str] = []
    for source in sources:
        if not source.exists():
            raise RecordError(f"report: no file or folder '{source}'. Give a folder of records, e.g. results/.")
        here: dict[tuple[Any, ...], Record] = {}
        for path in [source] if source.is_file() else _record_files(source):
            record = read(path)
            key = _identity(record)
            if key in here:
                raise RecordError(
                    f"{path}: the same {record.kind} as {here[key].path}. Keep one of the two files, or a mean would "
                    f"count it twice."
                )
            here[key] = record
        for key, record in here.items():
            if key in kept and kept[key].path.resolve() != record.path.resolve():
                notes.append(f"{record.path} repeats {kept[key].path} and was left out.")
            kept.setdefault(key, record)
    return Records(tuple(sorted(kept.values(), key=lambda record: _order(record))), tuple(notes))


def read(path: Path) -> Record:
    """One record file, its schema and kind checked."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: not valid JSON ({error}). Delete the file and run its command again.") from error
    if not isinstance(data, dict):
        raise RecordError(f"{path}: holds a JSON {type(data).__name__}, expected an object. Move it out of the folder.")
    if "schema" not in data or "kind" not in data:
        lacking = "schema" if "schema" not in data else "kind"
        raise RecordError(f"{path}: field '{lacking}' is missing, so this is no record. Move it out of the folder.")
    if data["schema"] != SCHEMA:
        raise RecordError(
            f"{path}: schema {data['schema']!r}, but this version reads {SCHEMA}. Write the record again."
        )
    if data["kind"] not in KINDS:
        raise RecordError(f"{path}: kind {data['kind']!r}, expected one of {', '.join(KINDS)}.")
    return Record(path, data["kind"], data)


def _record_files(folder: Path) -> list[Path]:
    # A run keeps checkpoints and logs in a folder named like its record; nothing in there is a record.
    found = []
    for path in folder.rglob("*.json"):
        inner = path.relative_to(folder).parts[:-1]
        if not any("-seed" in part or part.startswith((".", "_")) for part in inner):
            found.append(path)
    return sorted(found)


def _identity(record: Record) -> tuple[Any, ...]:
    if record.kind == "run":
        config = json.dumps(record.mapping("config"), sort_keys=True)
        return ("run", record.task, record.preset, record.model, record.seed, config)
    if record.kind == "audit":
        return ("audit", record.text("module"))
    return (record.kind, record.find("name") or record.path.stem)


def _order(record: Record) -> tuple[str, ...]:
    if record.kind == "run":
        return ("run", record.task, record.preset, record.model, f"{record.seed:09d}", str(record.path))
    return (record.kind, str(record.path))
