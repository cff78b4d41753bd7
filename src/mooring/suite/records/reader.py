"""Record files, read without trust.

A record is one JSON file, or one line of a `.jsonl` file, with a `schema` and a `kind`. Records come from other
machines and from runs that were killed, so nothing about a file is taken for granted: it may be a folder, a pipe, half
a record or none at all.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from mooring.suite.records.record import KINDS, LINES, SCHEMA, Record, RecordError, printable

if TYPE_CHECKING:
    from mooring.suite.records.lines import Curves

# The largest record published so far is 0.3 MB.
LARGEST_FILE = 16 * 2**20
LARGEST_BOARD = 16 * LARGEST_FILE
LONGEST_TEXT = 100_000
DEEPEST = 32
LARGEST_WHOLE = 2**63
MOST_DIGITS = 1000
# What a run is trained on, beside its configuration, and what most are trained on.
USUALLY: Mapping[str, Any] = {"devices": 1, "accelerator": "cpu"}
# Options that came after the first records, and what a record that lacks one was made with.
LATER: Mapping[str, Any] = {
    "addressed": True,
    "anchor_init": 0.0,
    "carry": False,
    "competition": False,
    "content_dropout": 0.0,
    "dropout": 0.0,
    "equal_parameters": True,
    "exact_ranks": False,
    "turns": 1,
    "hidden_channels": None,
    "integrate": "film",
    "mass_map": "mlp",
    "split": True,
    "update_channels": None,
    "update_norm": "layer",
}
_AGAIN = "Delete the file and run its command again."
_RESTORE = "Restore the line from git, or delete it and publish the record again."
# Control characters would reach the terminal and the page, and half a surrogate pair cannot be written at all.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


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
        skip: leave out a file that is not a usable record and say so in `notes`, instead of raising RecordError.
    """
    kept: dict[tuple[Any, ...], Record] = {}
    notes: list[str] = []
    for source in sources:
        if not source.exists():
            raise RecordError(f"report: no file or folder '{source}'. Give a folder of records, e.g. results/.")
        here: dict[tuple[Any, ...], Record] = {}
        for path, problem in _record_files(source) if source.is_dir() else [(source, "")]:
            for found in _records_of(path, problem):
                usable = _unrepeated(found, here) if isinstance(found, Record) else found
                if isinstance(usable, Record):
                    here[identity_of(usable)] = usable
                elif skip:
                    notes.append(f"Left out: {usable}")
                else:
                    raise usable
        for key, record in here.items():
            if key in kept and kept[key].path.resolve() != record.path.resolve():
                notes.append(printable(f"{record.path} repeats {kept[key].path} and was left out."))
            kept.setdefault(key, record)
    return Records(tuple(sorted(kept.values(), key=_order)), tuple(notes))


def _records_of(path: Path, problem: str = "") -> Iterator[Record | RecordError]:
    """The records of a file, and in place of each that is not usable what is wrong with it."""
    try:
        if problem:
            raise RecordError(f"{path}: cannot be read ({problem}).", path)
        if path.suffix == LINES:
            yield from _lines(path)
        else:
            yield read(path)
    except RecordError as error:
        yield error


def _lines(path: Path) -> Iterator[Record | RecordError]:
    # Imported on first use: the records of a run that was just trained are files.
    from mooring.suite.records.lines import BOARD, merged, ordered, reader_of_curves

    shared: Mapping[str, Any] = {}
    order: list[str] = []
    curves: Curves | None = None
    texts = _text(path, LARGEST_BOARD).split("\n")
    first = Path(f"{path}:1")
    board = _value(texts[0], first, _RESTORE)
    if isinstance(board, dict) and board.get("kind") == BOARD:
        _check_schema(board, first)
        header = Record(first, BOARD, board, _RESTORE)
        shared, order = header.mapping("shared"), list(map(str, header.items("order")))
        curves = reader_of_curves(board, path)
        texts[0] = ""
    for number, text in enumerate(texts, start=1):
        where = Path(f"{path}:{number}")
        try:
            if text:
                data = _value(text, where, _RESTORE)
                yield _line(ordered(merged(shared, data), order) if isinstance(data, dict) else data, where, curves)
        except RecordError as error:
            yield error


def _line(data: Any, where: Path, curves: Curves | None) -> Record:
    if not isinstance(data, dict) or "file" not in data:
        return _record(where, data)
    file = data.pop("file")
    if not isinstance(file, str) or PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise RecordError(f"{where}: field 'file' is {file!r:.80}, expected a path below the folder. {_RESTORE}", where)

    def bulk() -> Mapping[str, Any]:
        assert curves is not None
        content = curves(file, where)
        if problem := _problem(content):
            raise RecordError(f"{where}: {problem}. {_RESTORE}", where)
        return content

    return _record(where, data, file=where.parent / file, bulk=bulk if curves else None)


def _unrepeated(record: Record, here: Mapping[tuple[Any, ...], Record]) -> Record | RecordError:
    same = here.get(identity_of(record))
    if same is None:
        return record
    return RecordError(
        f"{record.path}: the same {record.kind} as {same.path}. Keep one of the two, or a mean would count it twice.",
        record.path,
    )


def read(path: Path, remedy: str = "") -> Record:
    """Read one record file and check its schema, its kind and the fields that every record of the kind has.

    Args:
        path: the file.
        remedy: what a message about a field tells the reader to do; by default the command that writes such records.
    """
    return _record(path, parse(path), remedy)


def _record(path: Path, data: Any, remedy: str = "", **parts: Any) -> Record:
    if not isinstance(data, dict):
        raise RecordError(
            f"{path}: holds a JSON {type(data).__name__}, expected an object. Move it out of the folder.", path
        )
    if "schema" not in data or "kind" not in data:
        lacking = "schema" if "schema" not in data else "kind"
        raise RecordError(
            f"{path}: field '{lacking}' is missing, so this is not a record. Move it out of the folder.", path
        )
    _check_schema(data, path)
    if data["kind"] not in KINDS:
        raise RecordError(f"{path}: kind {data['kind']!r:.80}, expected one of {', '.join(KINDS)}.", path)
    record = Record(path, data["kind"], data, remedy, **parts)
    _check(record)
    return record


def _check_schema(data: Mapping[str, Any], path: Path) -> None:
    # True equals 1 in Python, but is not a version.
    if type(data.get("schema")) is not int or data["schema"] != SCHEMA:
        raise RecordError(
            f"{path}: schema {data.get('schema')!r:.80}, but this version reads {SCHEMA}. Write the record again.", path
        )


def _check(record: Record) -> None:
    """Refuse a record with the wrong structure; single numbers are checked where a table or figure needs them."""
    whole = record.bulk is None
    for key in ("versions", "parameters", "changed", "options", *(["diagnostics"] if whole else [])):
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
        for key in ("name", "title", "caption", "machine"):
            if record.find(key) is not None:
                record.text(key)
        if record.find("name") is not None:
            record.name("name")
        if record.kind == "bench":
            record.items("rows")
        record.parts("rows")
        record.parts("series")


def _record_files(folder: Path) -> list[tuple[Path, str]]:
    """The files below a folder that are named like records, and the folders that cannot be read, with the reason."""
    found: list[tuple[Path, str]] = []

    def closed(error: OSError) -> None:
        found.append((Path(error.filename), error.strerror or str(error)))

    for name, inner, files in os.walk(folder, onerror=closed):
        # A folder may be named like a record; it is reported, not skipped.
        found += ((Path(name, entry), "") for entry in (*files, *inner) if entry.endswith((".json", LINES)))
        inner[:] = [part for part in inner if not part.startswith((".", "_")) and not _of_a_run(Path(name, part))]
    return sorted(found)


def _of_a_run(folder: Path) -> bool:
    """Whether a run keeps checkpoints and logs there, in a folder named like its record: nothing in it is a record."""
    if not re.search(r"-seed\d+$", folder.name):
        return False
    signs = (folder.with_name(f"{folder.name}.json"), folder / "progress.json", folder / "lock")
    return any(sign.exists() for sign in signs) or any(folder.glob("epoch-*.safetensors*"))


def trained_on(record: Record) -> dict[str, Any]:
    """How many devices trained a run, and of what kind: k of them take batches k times as large."""
    return {name: usual if record.find(name) is None else record.find(name) for name, usual in USUALLY.items()}


def changed_fields(record: Record) -> frozenset[str]:
    """Return the config fields in which a run differs from its preset.

    Records from before the field ``changed`` have them in the name of their folder, as in ``full,epochs=8``.
    """
    if record.find("changed") is not None:
        return frozenset(record.mapping("changed"))
    preset, *changes = record.origin.parent.name.split(",")
    return frozenset(change.partition("=")[0] for change in changes) if preset == record.preset else frozenset()


def identity_of(record: Record) -> tuple[Any, ...]:
    """Return what two records of the same run, module or measurement share."""
    if record.kind == "run":
        # Of one run two records may be found, one of them from before an option existed.
        config = json.dumps({**LATER, **record.mapping("config"), **trained_on(record)}, sort_keys=True)
        return ("run", record.task, record.preset, record.model, record.seed, config)
    if record.kind == "audit":
        return ("audit", record.name("module"))
    return (record.kind, record.find("name") or record.origin.stem)


def _order(record: Record) -> tuple[str, ...]:
    if record.kind == "run":
        return ("run", record.task, record.preset, record.model, f"{record.seed:019d}", str(record.origin))
    return (record.kind, str(record.origin))


def parse(path: Path) -> Any:
    """The JSON value of a file; RecordError where it is unreadable, too large, not JSON, or ambiguous."""
    return _value(_text(path), path)


def _value(text: str, path: Path, remedy: str = _AGAIN) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except RecursionError as error:
        raise RecordError(f"{path}: nested too deeply, at most {DEEPEST} levels are read. {remedy}", path) from error
    except ValueError as error:
        raise RecordError(f"{path}: not valid JSON ({error}). {remedy}", path) from error
    problem = _problem(value)
    if problem:
        raise RecordError(f"{path}: {problem}. {remedy}", path)
    return value


def _text(path: Path, largest: int = LARGEST_FILE) -> str:
    try:
        # Opening a pipe would wait for its writer, so the kind of file is checked first.
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RecordError(f"{path}: not a regular file. Move it out of the folder.", path)
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}).", path) from error
    if len(content) > largest:
        megabytes = max(found.st_size, len(content)) / 2**20
        limit = largest // 2**20
        raise RecordError(
            f"{path}: {megabytes:.0f} MB, a record may have at most {limit} MB. Move it out of the folder.", path
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not valid JSON ({error}). {_AGAIN}", path) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {twice[:80]!r} is given twice")
    return found


def _whole(digits: str) -> int:
    # Python itself refuses thousands of digits, with advice that does not help here.
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _problem(value: Any) -> str:
    """What makes the value unusable, in a few words; nothing if it is usable."""
    waiting = [(value, "", 1)]
    while waiting:
        item, where, depth = waiting.pop()
        at = f"field '{where[:200]}'" if where else "the record"
        if depth > DEEPEST:
            return f"nested too deeply, at most {DEEPEST} levels are read"
        if isinstance(item, dict):
            for key, inner in item.items():
                if _UNFIT.search(key):
                    return f"{at} has a field named {key[:80]!r}, with characters that cannot be shown"
                waiting.append((inner, f"{where}.{key}".lstrip("."), depth + 1))
        elif isinstance(item, list):
            waiting += ((inner, where, depth + 1) for inner in item)
        elif isinstance(item, str):
            if len(item) > LONGEST_TEXT:
                return f"{at} is a text of {len(item):,} characters, at most {LONGEST_TEXT:,} are read"
            if _UNFIT.search(item):
                return f"{at} is {item[:80]!r}, with characters that cannot be shown"
        elif isinstance(item, int) and abs(item) > LARGEST_WHOLE:
            return f"{at} is a number above 2^63"
    return ""
