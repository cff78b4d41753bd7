"""From runs/ to results/ and back: records as they are published, and as the commands write and resume them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mooring.suite.files import write_atomic
from mooring.suite.records.lines import CURVES, pack
from mooring.suite.records.reader import identity_of, load
from mooring.suite.records.record import LINES, Record, RecordError
from mooring.suite.records.run import to_text, unknown_commits

# The other kinds have few records, and stay files.
PACKED = ("run", "audit")


def problem(record: Record) -> str:
    """Why the code that made a record cannot be checked out; nothing if it can.

    >>> problem(Record(Path("a.json"), "run", {"git_commit": "0123456789abcdef"}))
    ''
    >>> problem(Record(Path("a.json"), "run", {"git_commit": "0123456789abcdef-dirty"}))
    'made at commit 0123456789 with changes that were never committed.'
    >>> problem(Record(Path("a.json"), "run", {"git_commit": "0123456, then 789abcd"}))
    "its commit is '0123456, then 789abcd'."
    """
    commit = record.find("git_commit")
    if commit is None:
        return "names no commit."
    commit = record.name("git_commit")
    if re.fullmatch(r"[0-9a-f]{7,64}", commit):
        return ""
    sound = re.fullmatch(r"([0-9a-f]{7,64})-dirty", commit)
    if sound:
        return f"made at commit {sound[1][:10]} with changes that were never committed."
    return f"its commit is '{commit}'."


def publish(runs: Path, results: Path, files: Iterable[Path] | None = None) -> list[Path]:
    """Add records to the published ones, or replace those of the same runs; return the files written.

    Runs and audits become lines of ``results/BOARD.jsonl``, where the board is the first folder of a record; records of
    other kinds are copied. Each file is replaced whole; a kill between the two files of a board shows in their hash.

    Args:
        runs: the folder that the commands wrote to.
        results: the folder of published records.
        files: the records below ``runs`` to publish; all of them by default.

    Raises:
        RecordError: where a record is not usable, repeats another or names no clean commit of this clone; then nothing
            is written.
    """
    records = load([runs] if files is None else files)
    if records.notes:
        raise RecordError(records.notes[0])
    _require_clean(records, results)
    boards: dict[str, dict[str, Record]] = {}
    copies: dict[Path, Record] = {}
    for record in records:
        file = record.origin.relative_to(runs)
        if record.kind in PACKED:
            boards.setdefault(_board(record, file), {})[file.as_posix()] = record
        else:
            copies[results / file] = record
    for name, added in boards.items():
        _write_board(results / name, added)
    for path, record in copies.items():
        write_atomic(path, to_text(record.content))
    return [*copies, *(results / f"{name}{LINES}" for name in boards)]


def unpack(source: Path, runs: Path) -> list[Path]:
    """Write published records as files again, where ``mooring run --out RUNS`` looks for finished runs.

    Args:
        source: the folder of published records, or one board.
        runs: the folder to write to; a file that is there is left alone.
    """
    root = source if source.is_dir() else source.parent
    missing = {
        path: record for record in load([source]) if not (path := runs / record.origin.relative_to(root)).exists()
    }
    for path, record in missing.items():
        write_atomic(path, to_text(record.content))
    return list(missing)


def _board(record: Record, file: Path) -> str:
    if len(file.parts) < 2:
        raise RecordError(
            f"{record.path}: lies in no folder of its board. Give the folder above, as in runs/TASK/PRESET/MODEL.json.",
            record.path,
        )
    return file.parts[0]


def _require_clean(records: Iterable[Record], results: Path) -> None:
    refused = [f"{record.path}: {why}" for record in records if (why := problem(record))]
    commits = {record.path: record.find("git_commit") for record in records}
    gone = unknown_commits(results, set(commits.values())) if not refused else set()
    refused += [
        f"{path}: this clone has no commit {commit[:10]}." for path, commit in commits.items() if commit in gone
    ]
    if refused:
        more = f" And {len(refused) - 3} more." if len(refused) > 3 else ""
        raise RecordError(f"{' '.join(refused[:3])}{more} Nothing was published. Make them again from a clean commit.")


def _write_board(base: Path, added: dict[str, Record]) -> None:
    path, curves = (base.with_name(base.name + suffix) for suffix in (LINES, CURVES))
    again = {identity_of(record) for record in added.values()}
    records = {}
    for record in load([path]) if path.exists() else ():
        if identity_of(record) not in again:
            records[record.origin.relative_to(base.parent).as_posix()] = record.content
    lines, packed = pack(records | {file: record.content for file, record in added.items()})
    # The lines name the curves by their hash, so that one file without the other is noticed.
    if packed:
        write_atomic(curves, packed)
    write_atomic(path, lines)
