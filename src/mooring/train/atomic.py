"""Files that are either whole or absent: written beside, flushed to disk, then renamed over."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write `data` to `path` so that a kill at any moment leaves the old file or the new one, never a part of one.

    The temporary name carries the process id: a worker that outlives its parent cannot tear a successor's file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Delete the temporary files that killed writers of `name` left in `folder`."""
    for path in folder.glob(f".{name}.*.tmp"):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    # Without this the rename itself may be lost in a power cut. Windows cannot open folders and does not need it.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
