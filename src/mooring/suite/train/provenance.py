"""Where a record comes from: library versions and the commit of this code."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("mooring", "torch", "torch_geometric", "lightning", "numpy")

CODE = (":/src/*.py", ":/experiments/*.py")
# Git's way to say: everything but these.
NO_CODE = tuple(f":(top,exclude){pattern}" for pattern in ("results", "docs", "*.md"))


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
