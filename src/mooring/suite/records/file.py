"""Record files: written whole and with where they come from, read without trust.

A record is one JSON file with a `schema` and a `kind`. Records come from other machines and from runs that were killed,
so nothing about a file is taken for granted: it may be a folder, a pipe, half a record or none at all.
"""

from __future__ import annotations

import json
import platform
import re
import stat
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic

SCHEMA = 1
KINDS = ("run", "verify", "audit", "bench", "soak", "mutation")

PACKAGES = ("mooring", "torch", "torch_geometric", "lightning", "numpy")

CODE = (":/src/*.py", ":/experiments/*.py")
# Git's way to say: everything but these.
NO_CODE = tuple(f":(top,exclude){pattern}" for pattern in ("results", "docs", "*.md"))

# The largest record published so far has 0.3 MB.
LARGEST_FILE = 16 * 2**20
LONGEST_TEXT = 100_000
DEEPEST = 32
LARGEST_WHOLE = 2**63
MOST_DIGITS = 1000
_AGAIN = "Delete the file and run its command again."
# Control characters would reach the terminal and the page, and half a surrogate pair cannot be written at all.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class RecordError(ValueError):
    """A record file that cannot be used; the message names the file and the field, `path` is the file."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(printable(message))
        self.path = path


def printable(text: str) -> str:
    """The text on one line that any terminal and any page can show: everything else is written as an escape.

    >>> printable("a\\nb"), printable("caf\\u00e9"), printable("\\udcff")
    ('a\\\\nb', 'café', '\\\\udcff')
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def to_text(content: Mapping[str, Any]) -> str:
    """Return a record as its file holds it. Non-finite floats are NaN and Infinity, as Python's json reads them."""
    return json.dumps({"schema": SCHEMA, **content}, indent=1) + "\n"


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record with where it comes from, whole or not at all."""
    origin = {"versions": versions() | content.get("versions", {}), "git_commit": git_commit()}
    write_atomic(path, to_text({**content, **origin}))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide the numbers."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = _version(package)
    return found


def git_commit() -> str:
    """Return the commit of this code, with ``-dirty`` if the code differs from it; ``unknown`` outside a clone.

    What cannot change a number does not count: records, or every record but the first of a batch would be dirty, and
    prose. A module that was never added does.
    """
    folder = Path(__file__).parent
    # Asked first because an installed copy may lie inside a clone of something else.
    if not _git(folder, "ls-files", Path(__file__).name):
        return "unknown"
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", *NO_CODE)
    added = _git(folder, "ls-files", "--others", "--exclude-standard", "--", *CODE)
    # Git that gives no answer has not said that nothing changed.
    if not commit or changed is None or added is None:
        return "unknown"
    return f"{commit}-dirty" if changed or added else commit


def parse(path: Path) -> Any:
    """The JSON value of a file; RecordError where it is unreadable, too large, no JSON, or ambiguous."""
    text = _text(path)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except RecursionError as error:
        raise RecordError(f"{path}: nested too deeply, at most {DEEPEST} levels are read. {_AGAIN}", path) from error
    except ValueError as error:
        raise RecordError(f"{path}: not valid JSON ({error}). {_AGAIN}", path) from error
    problem = _problem(value)
    if problem:
        raise RecordError(f"{path}: {problem}. {_AGAIN}", path)
    return value


def _text(path: Path) -> str:
    try:
        # Opening a pipe would wait for its writer, so the kind is looked at first.
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RecordError(f"{path}: no regular file. Move it out of the folder.", path)
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}).", path) from error
    if len(content) > LARGEST_FILE:
        megabytes = max(found.st_size, len(content)) / 2**20
        limit = LARGEST_FILE // 2**20
        raise RecordError(
            f"{path}: {megabytes:.0f} MB, a record has at most {limit} MB. Move it out of the folder.", path
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
    # Python itself refuses to read thousands of digits, with advice that is of no use here.
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _problem(value: Any) -> str:
    """What makes the value unfit for any use, in a few words; nothing if it is fit."""
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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, None where it fails. It takes no locks: many runs ask at the same time."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
