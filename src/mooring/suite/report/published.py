"""Records that may be published: those that can be made again.

A record names the commit it was made at. One made with changes that were never committed, or that names no commit or
one that the clone does not have, cannot be made again, so it is refused unless `exceptions.txt` beside the records
lists it with the reason. That list may only shrink: an entry whose record is gone or has become clean is refused too.
So is a run that differs from its preset in a field that it does not name as changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.suite.records import Record, RecordError, changed_fields, load, printable, unknown_commits

EXCEPTIONS = "exceptions.txt"
DIRTY = "-dirty"


def refusals(results: Path, presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> list[str]:
    """One line for each record under the folder, or entry of its list of exceptions, that must not be published.

    Args:
        results: folder of the records.
        presets: configuration of each task and preset; a run that differs from it without saying so is refused.
    """
    records = load([results], skip=True)
    known = exceptions(results / EXCEPTIONS)
    problems = {record.path: problem(record) for record in records}
    clean = {record.path: record.name("git_commit") for record in records if not problems[record.path]}
    gone = unknown_commits(results, set(clean.values()))
    problems |= {path: f"this clone has no commit {commit[:10]}." for path, commit in clean.items() if commit in gone}
    refused = [
        f"{path}: {why} Make it again from a clean commit."
        for path, why in problems.items()
        if why and path.relative_to(results).as_posix() not in known
    ]
    for run in records.kind("run"):
        usual, config = (presets or {}).get((run.task, run.preset), {}), run.mapping("config")
        hidden = [name for name in usual.keys() & config.keys() - changed_fields(run) if config[name] != usual[name]]
        refused += [
            f"{run.path}: {name} is {config[name]!r} where preset '{run.preset}' has {usual[name]!r}, and the record "
            "does not name it as changed. Run it again."
            for name in sorted(hidden)[:1]
        ]
    for name in known:
        if not (results / name).exists():
            refused.append(f"{results / EXCEPTIONS}: there is no record '{name}'. Delete its line.")
        elif problems.get(results / name) == "":
            refused.append(f"{results / EXCEPTIONS}: '{name}' needs no exception. Delete its line.")
    return [*records.notes, *map(printable, refused)]


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
    sound = re.fullmatch(rf"([0-9a-f]{{7,64}}){DIRTY}", commit)
    if sound:
        return f"made at commit {sound[1][:10]} with changes that were never committed."
    return f"its commit is '{commit}'."


def exceptions(path: Path) -> dict[str, str]:
    """The listed records and why each is listed; none where there is no list.

    A line in brackets is the reason of the paths below it, up to the next one; `#` begins a comment.
    """
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    reason = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("["):
            reason = text.strip("[] ")
        elif not reason:
            raise RecordError(f"{path}, line {number}: '{text}' has no reason. Put one in brackets above it.", path)
        elif text in found:
            raise RecordError(f"{path}, line {number}: '{text}' is listed twice. Delete one of the lines.", path)
        else:
            found[text] = reason
    return found
