"""Read and validate record files.

A record is one JSON file, or one line of a `.jsonl` file, with a `schema` and a `kind`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.suite.records.identity import record_key
from mooring.suite.records.record import KINDS, LINES, SCHEMA, Record, RecordError, printable

# The most complete first; presets with other names come after them.
PRESETS = ("paper", "full", "quick")
_AGAIN = "Delete the file and run its command again."
# Beyond this a whole number is not one of ours, and deeper nesting is no record.
LARGEST_WHOLE, DEEPEST = 2**63, 32
LARGEST_FILE = 16 * 2**20
# Control characters would reach the terminal and the page, and half a surrogate pair cannot be written at all.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Records(Sequence[Record]):
    """The records of a report in a fixed order, and notes on the files that were left out."""

    every: tuple[Record, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.every)

    def __getitem__(self, index: Any) -> Any:
        return self.every[index]

    def without(self, record: Record) -> Records:
        """Return all records but one."""
        return Records(tuple(other for other in self.every if other is not record), self.notes)

    def kind(self, kind: str) -> list[Record]:
        return [record for record in self.every if record.kind == kind]

    def runs(self, task: str, preset: str | None = None) -> list[Record]:
        """Return the runs of a task, of one preset if it is given."""
        return [run for run in self.kind("run") if run.task == task and preset in (None, run.preset)]

    def presets(self, task: str) -> list[str]:
        """Return the presets that a task was run with, the most complete first."""
        rank = {name: place for place, name in enumerate(PRESETS)}
        return sorted({run.preset for run in self.runs(task)}, key=lambda name: (rank.get(name, len(rank)), name))


def load(sources: Iterable[Path], *, skip: bool = False) -> Records:
    """Read every record under the given folders, or the given files, without the working folders of runs.

    If two sources hold the same run, the earlier source is used and the other is named in `notes`.

    Args:
        sources: folders and files.
        skip: leave out a file that is not a usable record and note it, instead of raising RecordError.
    """
    records: dict[tuple[Any, ...], Record] = {}
    notes: list[str] = []
    for source in sources:
        if not source.exists():
            raise RecordError(f"report: no file or folder '{source}'. Give a folder of records, e.g. results/.")
        of_source: dict[tuple[Any, ...], Record] = {}
        files = _record_files(source) if source.is_dir() else [source]
        for record in itertools.chain.from_iterable(map(_records_of, files)):
            if isinstance(record, Record):
                same = of_source.setdefault(record_key(record), record)
                if same is record:
                    continue
                record = RecordError(
                    f"{record.path}: the same {record.kind} as {same.path}. Keep one of the two, or a mean would count "
                    "it twice.",
                    record.path,
                )
            if not skip:
                raise record
            notes.append(f"Left out: {record}")
        for key, record in of_source.items():
            same = records.setdefault(key, record)
            if same.path.resolve() != record.path.resolve():
                notes.append(printable(f"{record.path} repeats {same.path} and was left out."))
    return Records(tuple(sorted(records.values(), key=_order)), tuple(notes))


def read(path: Path, remedy: str = "") -> Record:
    """Read one record file and check its schema, its kind and the fields that every record of the kind has.

    Args:
        path: the file.
        remedy: the advice at the end of an error message; by default the command that writes such records.
    """
    return make_record(path, parse_json(read_text(path), path), remedy)


def make_record(path: Path, data: Any, remedy: str = "", **options: Any) -> Record:
    """Check the JSON value of a record and return the record; RecordError if it is not one."""
    if not isinstance(data, dict):
        raise RecordError(
            f"{path}: holds a JSON {type(data).__name__}, expected an object. Move it out of the folder.", path
        )
    if missing := [name for name in ("schema", "kind") if name not in data]:
        raise RecordError(
            f"{path}: field '{missing[0]}' is missing, so this is not a record. Move it out of the folder.", path
        )
    check_schema(data, path)
    if data["kind"] not in KINDS:
        raise RecordError(f"{path}: kind {data['kind']!r:.80}, expected one of {', '.join(KINDS)}.", path)
    record = Record(path, data["kind"], data, remedy, **options)
    _check(record)
    return record


def check_schema(data: Mapping[str, Any], path: Path) -> None:
    """Raise RecordError for another version of the schema."""
    # True equals 1 in Python, but is not a version.
    if type(data.get("schema")) is not int or data["schema"] != SCHEMA:
        raise RecordError(
            f"{path}: schema {data.get('schema')!r:.80}, but this version reads {SCHEMA}. Write the record again.", path
        )


def parse_json(text: str, path: Path, remedy: str = _AGAIN) -> Any:
    """Return the JSON value of a text; RecordError if it is not JSON, repeats a field, or could not be shown."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not valid JSON ({error}). {remedy}", path) from error
    check_content(value, path, remedy)
    return value


def read_text(path: Path, largest: int | None = None) -> str:
    """Return the content of a regular file of at most `largest` bytes, by default of a record's size."""
    largest = largest or LARGEST_FILE
    try:
        # Opening a pipe would wait for its writer.
        if path.exists() and not path.is_file():
            raise RecordError(f"{path}: not a regular file. Move it out of the folder.", path)
        if path.exists() and path.stat().st_size > largest:
            raise RecordError(
                f"{path}: {path.stat().st_size / 2**20:.0f} MB, a record may have at most {largest // 2**20} MB. "
                "Move it out of the folder.",
                path,
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}).", path) from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not valid JSON ({error}). {_AGAIN}", path) from error


def check_content(value: Any, path: Path, remedy: str) -> None:
    """Raise RecordError for a text with characters that cannot be shown, or for deep nesting."""
    if _depth(value) > DEEPEST:
        raise RecordError(f"{path}: nested too deeply, at most {DEEPEST} levels are read. {remedy}", path)
    for place, text in _texts(value, "the record"):
        if _UNFIT.search(text):
            raise RecordError(f"{path}: {place} {text[:80]!r}, with characters that cannot be shown. {remedy}", path)


def _depth(value: Any) -> int:
    """Return the number of levels of a JSON value, level by level: a recursive count could itself go too deep."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        depth += 1
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
    return depth


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield all texts and names of fields in a JSON value, each after the words that say where it is."""
    if isinstance(value, str):
        yield f"{place} is", value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, place)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"{place} has a field named", name
            inner = f"{place[:-1]}.{name}'" if place.endswith("'") else f"field '{name}'"
            yield from _texts(item, inner)


def _records_of(file: Path | RecordError) -> Iterator[Record | RecordError]:
    """Yield the records of a file, or a RecordError in place of each that is not usable."""
    try:
        if isinstance(file, RecordError):
            yield file
        elif file.suffix == LINES:
            # Imported on first use: the records of a run that was just trained are files.
            from mooring.suite.records.lines import read_lines

            yield from read_lines(file)
        else:
            yield read(file)
    except RecordError as error:
        yield error


def _check(record: Record) -> None:
    """Check the structure of a record; single numbers are checked when a table or figure needs them."""
    whole = record.bulk is None
    for key in ("versions", "parameters", "changed", "options", *(["diagnostics"] if whole else [])):
        if record.find(key) is not None:
            record.mapping(key)
    for key in record.find("versions") or ():
        record.text("versions", key)
    for key in ("git_commit", *(["name"] if record.kind in ("bench", "mutation") else [])):
        if record.find(key) is not None:
            record.name(key)
    if record.kind == "run":
        for key in ("task", "model", "preset"):
            record.name(key)
        if record.whole("seed") < 0:
            raise record.error(f"field 'seed' is {record.seed}, expected 0 or more.")
        record.mapping("config")
        for key in ("best", "final"):
            record.mapping("metrics", key)
        if whole:
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
    elif record.kind == "soak":
        record.mapping("counts")
    else:
        for key in ("title", "caption", "machine"):
            if record.find(key) is not None:
                record.text(key)
        if record.kind == "bench":
            record.items("rows")
        record.parts("rows")
        record.parts("series")


def _record_files(folder: Path) -> list[Path | RecordError]:
    """Return the files below a folder that are named like records, and an error for each folder that is closed."""
    closed: list[Path | RecordError] = []

    def close(error: OSError) -> None:
        closed.append(RecordError(f"{error.filename}: cannot be read ({error.strerror}).", Path(error.filename)))

    files: list[Path] = []
    for name, inner, entries in os.walk(folder, onerror=close):
        # A folder may be named like a record; it is reported, not skipped.
        files += (Path(name, entry) for entry in (*entries, *inner) if entry.endswith((".json", LINES)))
        inner[:] = [part for part in inner if not part.startswith((".", "_")) and not _of_a_run(Path(name, part))]
    return [*closed, *sorted(files)]


def _of_a_run(folder: Path) -> bool:
    """Return whether a run keeps checkpoints and logs in the folder, which then holds no records."""
    if not re.search(r"-seed\d+$", folder.name):
        return False
    signs = (folder.with_name(f"{folder.name}.json"), folder / "progress.json", folder / "lock")
    return any(sign.exists() for sign in signs) or any(folder.glob("epoch-*.safetensors*"))


def _order(record: Record) -> tuple[str, ...]:
    if record.kind == "run":
        return ("run", record.task, record.preset, record.model, f"{record.seed:019d}", str(record.origin))
    return (record.kind, str(record.origin))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {twice[:80]!r} is given twice")
    return fields


def _whole(digits: str) -> int:
    # Python's own limit is thousands of digits, and its message gives advice that does not help here.
    if len(digits) > 20 or abs(int(digits)) > LARGEST_WHOLE:
        raise ValueError("a number above 2^63")
    return int(digits)
