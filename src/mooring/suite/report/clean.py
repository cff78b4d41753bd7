"""Which published records may be published: those made by code that somebody else can check out.

A record names the commit it was made at. One made with changes that were never committed, or that names no commit,
cannot be made again, so it is refused unless `exceptions.txt` beside the records lists it with the reason. That list
may only shrink: an entry whose record is gone or has become clean is refused too.
"""

from __future__ import annotations

import re
from pathlib import Path

from mooring.suite.report.parse import RecordError, printable
from mooring.suite.report.records import Record, load

EXCEPTIONS = "exceptions.txt"
DIRTY = "-dirty"


def refusals(results: Path) -> list[str]:
    """One line for each record under the folder, or entry of its list of exceptions, that must not be published."""
    records = load([results], skip=True)
    known = exceptions(results / EXCEPTIONS)
    problems = {record.path: problem(record) for record in records}
    refused = [
        f"{path}: {why} Make it again from a clean commit."
        for path, why in problems.items()
        if why and path.relative_to(results).as_posix() not in known
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
