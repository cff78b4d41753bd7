"""Publishing: records go from runs/ to results/, and back to be resumed.

A record names the commit it was made at. One made with changes that were never committed, or that names no commit or
one that the clone does not have, cannot be made again and is not published. Neither is a run that differs from its
preset in a field that it does not name as changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.records.identity import changed_fields, record_key
from mooring.suite.records.lines import CURVES, pack
from mooring.suite.records.reader import load
from mooring.suite.records.record import LINES, Record, RecordError, printable
from mooring.suite.records.run import to_text, unknown_commits

# Records of other kinds are few and stay files.
PACKED = ("run", "audit")


def refusals(results: Path, presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> list[str]:
    """Return one line for each record under the folder that must not be published.

    Args:
        results: folder of the records.
        presets: configuration of each task and preset; a run that differs from it without naming the field is refused.
    """
    records = load([results], skip=True)
    problems = commit_problems(records, results)
    refused = [f"{path}: {why} Make it again from a clean commit." for path, why in problems.items()]
    for run in records.kind("run"):
        preset, config = (presets or {}).get((run.task, run.preset), {}), run.mapping("config")
        hidden = [name for name in preset.keys() & config.keys() - changed_fields(run) if config[name] != preset[name]]
        refused += [
            f"{run.path}: {name} is {config[name]!r} where preset '{run.preset}' has {preset[name]!r}, and the record "
            "does not name it as changed. Run it again."
            for name in sorted(hidden)[:1]
        ]
    return [*records.notes, *map(printable, refused)]


def commit_problems(records: Iterable[Record], folder: Path) -> dict[Path, str]:
    """Return why the code of each unclean record cannot be checked out in the clone of a folder, by path."""
    problems = {record.path: commit_problem(record) for record in records}
    clean = {record.path: record.name("git_commit") for record in records if not problems[record.path]}
    gone = unknown_commits(folder, set(clean.values()))
    problems |= {path: f"this clone has no commit {commit[:10]}." for path, commit in clean.items() if commit in gone}
    return {path: why for path, why in problems.items() if why}


def commit_problem(record: Record) -> str:
    """Return why the code that made a record cannot be checked out; an empty text if it can.

    >>> commit_problem(Record(Path("a.json"), "run", {"git_commit": "0123456789abcdef"}))
    ''
    >>> commit_problem(Record(Path("a.json"), "run", {"git_commit": "0123456789abcdef-dirty"}))
    'made at commit 0123456789 with changes that were never committed.'
    >>> commit_problem(Record(Path("a.json"), "run", {"git_commit": "0123456, then 789abcd"}))
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
        RecordError: if a record is not usable, repeats another or names no clean commit of this clone; then nothing is
            written.
    """
    records = load([runs] if files is None else files)
    if records.notes:
        raise RecordError(records.notes[0])
    if refused := [f"{path}: {why}" for path, why in commit_problems(records, results).items()]:
        more = f" And {len(refused) - 3} more." if len(refused) > 3 else ""
        raise RecordError(f"{' '.join(refused[:3])}{more} Nothing was published. Make them again from a clean commit.")
    boards: dict[str, dict[str, Record]] = {}
    copies: dict[Path, Record] = {}
    for record in records:
        file = record.origin.relative_to(runs)
        if record.kind not in PACKED:
            copies[results / file] = record
        elif len(file.parts) > 1:
            boards.setdefault(file.parts[0], {})[file.as_posix()] = record
        else:
            raise RecordError(
                f"{record.path}: lies in no folder of its board. Give the folder above, as in "
                "runs/TASK/PRESET/MODEL.json.",
                record.path,
            )
    for name, added in boards.items():
        _write_board(results / name, added)
    for path, record in copies.items():
        write_atomic(path, to_text(record.content))
    return [*copies, *(results / f"{name}{LINES}" for name in boards)]


def unpack(source: Path, runs: Path) -> list[Path]:
    """Write published records as files again, so that ``mooring run --out RUNS`` finds the finished runs.

    Args:
        source: the folder of published records, or one board.
        runs: the folder to write to; an existing file is left alone.
    """
    root = source if source.is_dir() else source.parent
    missing = {
        path: record for record in load([source]) if not (path := runs / record.origin.relative_to(root)).exists()
    }
    for path, record in missing.items():
        write_atomic(path, to_text(record.content))
    return list(missing)


def _write_board(base: Path, added: dict[str, Record]) -> None:
    path, curves = (base.with_name(base.name + suffix) for suffix in (LINES, CURVES))
    again = {record_key(record) for record in added.values()}
    records = {}
    for record in load([path]) if path.exists() else ():
        if record_key(record) not in again:
            records[record.origin.relative_to(base.parent).as_posix()] = record.content
    lines, packed = pack(records | {file: record.content for file, record in added.items()})
    # The lines name the curves by their hash, so that one file without the other is noticed.
    if packed:
        write_atomic(curves, packed)
    write_atomic(path, lines)
