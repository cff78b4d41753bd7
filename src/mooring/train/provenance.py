"""Where a record comes from: library versions and the commit of this code."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("mooring", "torch", "torch_geometric", "lightning", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide the numbers."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = _version(package)
    return found


def git_commit() -> str:
    """Return the commit of this code, with ``-dirty`` if tracked files differ from it; ``unknown`` outside a clone."""
    folder = Path(__file__).parent
    # Asked first because an installed copy may lie inside a clone of something else.
    if not _git(folder, "ls-files", Path(__file__).name):
        return "unknown"
    return _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
