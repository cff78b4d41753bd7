"""Records as a report reads them: every field by name, and refused by file and field where it is missing or wrong.

The kinds are `run` (one training), `verify` (the theorems), `audit` (one module measured), `bench` (speed), `soak`
(what was tried at length) and `mutation` (faults planted to test the tests).
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.suite.records.file import KINDS, SCHEMA, RecordError, parse, printable

LONGEST_NAME = 200
# Measurements are float32 and end below this; sums and squares of such numbers are still finite.
LARGEST = 1e39
_MISSING = object()
# What writes records of each kind where `mooring report` looks for them.
COMMANDS = {
    "run": "mooring run {task} --preset {preset}",
    "verify": "mooring verify",
    "audit": "mooring audit catalogue --json runs/audit",
    "bench": "mooring bench --json runs/bench/peers.json",
    "soak": "make soak",
    "mutation": "make mutation",
}


@dataclass(frozen=True, eq=False)
class Record:
    """One record file: its path, its kind and its JSON content.

    >>> record = Record(Path("vn-seed0.json"), "run", {"task": "two-radius", "metrics": {"best": {"label": 0.5}}})
    >>> record.number("metrics", "best", "label")
    0.5
    """

    path: Path
    kind: str
    data: Mapping[str, Any] = field(repr=False)
    remedy: str = field(default="", repr=False)

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
                raise self.error(f"field '{'.'.join(keys)}' is missing.")
        # bool is an int to Python, but a flag where a number belongs is a mistake in the record.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object):
            got = f"{type(value).__name__} {value!r}"
            raise self.error(f"field '{'.'.join(keys)}' is {got:.80}, expected {called}.")
        return value

    def number(self, *keys: str) -> float:
        return self._finite(self.need(*keys, kind=(int, float), called="a number"), keys)

    def numbers(self, *keys: str, gaps: bool = False) -> list[Any]:
        """A list of numbers; null stands for a missing one where `gaps` are allowed, and is returned as None."""
        values = self.items(*keys)
        for value in values:
            if not (gaps and value is None):
                if not isinstance(value, int | float) or isinstance(value, bool):
                    raise self.error(f"field '{'.'.join(keys)}' holds {value!r:.80}, expected numbers.")
                self._finite(value, keys)
        return values

    def whole(self, *keys: str) -> int:
        return int(self.need(*keys, kind=int, called="a whole number"))

    def name(self, *keys: str) -> str:
        """A text that names something: on one line, neither empty nor endless."""
        value = self.text(*keys)
        if not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
            raise self.error(
                f"field '{'.'.join(keys)}' is {value[:80]!r}, expected a name of 1 to {LONGEST_NAME} printable letters."
            )
        return value

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
        return Record(self.path, self.kind, value, self._remedy())

    def parts(self, *keys: str) -> list[Record]:
        """A list of objects, each read by the same rules; empty where the field is missing or null."""
        if self.find(*keys) is None:
            return []
        values = self.items(*keys)
        for value in values:
            if not isinstance(value, Mapping):
                raise self.error(f"field '{'.'.join(keys)}' holds {value!r:.80}, expected objects.")
        return [self.part(value) for value in values]

    def error(self, problem: str) -> RecordError:
        """What to raise for a problem with this record: it names the file and says how to write it again."""
        return RecordError(f"{self.path}: {problem} {self._remedy()}", self.path)

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

    def _finite(self, value: float, keys: Sequence[str]) -> float:
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise self.error(f"field '{'.'.join(keys)}' is {float(value):g}, expected a number.")
        return float(value)

    def _remedy(self) -> str:
        if self.remedy:
            return self.remedy
        task, preset = (self.find(key) for key in ("task", "preset"))
        known = [word for word in (task, preset) if isinstance(word, str) and word and len(word) <= LONGEST_NAME]
        task, preset = map(shlex.quote, known) if len(known) == 2 else ("TASK", "PRESET")
        command = COMMANDS[self.kind].format(task=task, preset=preset)
        return f"Write the record again with `{command}`."


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

    def without(self, record: Record) -> Records:
        """All but one."""
        return Records(tuple(other for other in self.every if other is not record), self.notes)

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


def load(sources: Iterable[Path], *, skip: bool = False) -> Records:
    """Every record under the given folders (or the given files), working folders of runs left out.

    Where two sources hold the same run, the earlier source is used and the other is named in `notes`.

    Args:
        sources: folders and files.
        skip: leave out a file that is no usable record and say so in `notes`, instead of raising RecordError.
    """
    kept: dict[tuple[Any, ...], Record] = {}
    notes: list[str] = []
    for source in sources:
        if not source.exists():
            raise RecordError(f"report: no file or folder '{source}'. Give a folder of records, e.g. results/.")
        here: dict[tuple[Any, ...], Record] = {}
        for path, problem in _record_files(source) if source.is_dir() else [(source, "")]:
            found = _read(path, problem, here)
            if isinstance(found, Record):
                here[_identity(found)] = found
            elif skip:
                notes.append(f"Left out: {found}")
            else:
                raise found
        for key, record in here.items():
            if key in kept and kept[key].path.resolve() != record.path.resolve():
                notes.append(printable(f"{record.path} repeats {kept[key].path} and was left out."))
            kept.setdefault(key, record)
    return Records(tuple(sorted(kept.values(), key=lambda record: _order(record))), tuple(notes))


def _read(path: Path, problem: str, here: Mapping[tuple[Any, ...], Record]) -> Record | RecordError:
    """A record that is not among those `here`, or what is wrong with the file."""
    if problem:
        return RecordError(f"{path}: cannot be read ({problem}).", path)
    try:
        record = read(path)
    except RecordError as error:
        return error
    same = here.get(_identity(record))
    if same is None:
        return record
    return RecordError(
        f"{path}: the same {record.kind} as {same.path}. Keep one of the two files, or a mean would count it twice.",
        path,
    )


def read(path: Path, remedy: str = "") -> Record:
    """One record file, its schema, its kind and the fields that every record of the kind has checked.

    Args:
        path: the file.
        remedy: what a message about a field tells the reader to do; by default the command that writes such records.
    """
    data = parse(path)
    if not isinstance(data, dict):
        raise RecordError(
            f"{path}: holds a JSON {type(data).__name__}, expected an object. Move it out of the folder.", path
        )
    if "schema" not in data or "kind" not in data:
        lacking = "schema" if "schema" not in data else "kind"
        raise RecordError(
            f"{path}: field '{lacking}' is missing, so this is no record. Move it out of the folder.", path
        )
    # True equals 1 to Python, but is no version.
    if type(data["schema"]) is not int or data["schema"] != SCHEMA:
        raise RecordError(
            f"{path}: schema {data['schema']!r:.80}, but this version reads {SCHEMA}. Write the record again.", path
        )
    if data["kind"] not in KINDS:
        raise RecordError(f"{path}: kind {data['kind']!r:.80}, expected one of {', '.join(KINDS)}.", path)
    record = Record(path, data["kind"], data, remedy)
    _check(record)
    return record


def _check(record: Record) -> None:
    """Refuse a record whose frame is wrong; single numbers are checked where a table or figure needs them."""
    for key in ("versions", "parameters", "diagnostics"):
        if record.find(key) is not None:
            record.mapping(key)
    for key in record.find("versions") or ():
        record.text("versions", key)
    if record.find("git_commit") is not None:
        record.name("git_commit")
    if record.kind == "run":
        for key in ("task", "model", "preset"):
            record.name(key)
        if record.whole("seed") < 0:
            raise record.error(f"field 'seed' is {record.seed}, expected 0 or more.")
        record.mapping("config")
        for key in ("best", "final"):
            record.mapping("metrics", key)
        record.items("metrics", "epochs")
        record.parts("metrics", "epochs")
    elif record.kind == "audit":
        record.name("module")
        record.items("findings")
        for finding in record.parts("findings"):
            finding.name("name")
            finding.text("verdict")
            if finding.find("broken") is not None:
                finding.flag("broken")
    elif record.kind == "verify":
        record.items("claims")
        for claim in record.parts("claims"):
            claim.name("label")
            claim.parts("series")
    else:
        for key in ("name", "title", "caption", "machine"):
            if record.find(key) is not None:
                record.text(key)
        if record.find("name") is not None:
            record.name("name")
        record.items("rows")
        record.parts("rows")
        record.parts("series")


def _record_files(folder: Path) -> list[tuple[Path, str]]:
    """The files below a folder that are named like records, and folders that cannot be looked into with the reason."""
    found: list[tuple[Path, str]] = []

    def closed(error: OSError) -> None:
        found.append((Path(error.filename), error.strerror or str(error)))

    for name, inner, files in os.walk(folder, onerror=closed):
        # A folder named like a record is no record, and is said not to be one.
        found += ((Path(name, entry), "") for entry in (*files, *inner) if entry.endswith(".json"))
        # A run keeps checkpoints and logs in a folder named like its record; nothing in there is a record.
        inner[:] = [part for part in inner if "-seed" not in part and not part.startswith((".", "_"))]
    return sorted(found)


def _identity(record: Record) -> tuple[Any, ...]:
    if record.kind == "run":
        config = json.dumps(record.mapping("config"), sort_keys=True)
        return ("run", record.task, record.preset, record.model, record.seed, config)
    if record.kind == "audit":
        return ("audit", record.name("module"))
    return (record.kind, record.find("name") or record.path.stem)


def _order(record: Record) -> tuple[str, ...]:
    if record.kind == "run":
        return ("run", record.task, record.preset, record.model, f"{record.seed:019d}", str(record.path))
    return (record.kind, str(record.path))
