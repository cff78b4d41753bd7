"""Safety against kills: atomic writes, locks, and processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from multiprocessing import parent_process
from pathlib import Path

from filelock import FileLock


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write `data` to `path`; after a kill or on a full disk the old file or the new one is there, never a part.

    Missing folders are made. A link is followed, and a file keeps its permissions. `/dev/stdout`, a named pipe and the
    like cannot be replaced by renaming and are written directly.

    The temporary name carries the process id: a worker that outlives its parent cannot damage its successor's file.
    """
    content = data.encode() if isinstance(data, str) else data
    # The error of a full disk names neither the file nor the folder.
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        if target.exists() and not target.is_file() and not target.is_dir():
            path.write_bytes(content)
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Delete the temporary files that killed writers of `name` left in `folder`."""
    for path in folder.glob(f".{name}.*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def hold(path: Path, seconds: float = -1) -> Iterator[bool]:
    """Hold the lock `path`, which the system releases when the process dies; False on a file system without locks.

    Args:
        path: the lock file, which stays.
        seconds: how long to wait for another holder; for ever by default.

    Raises:
        filelock.Timeout: When the other holder has it for longer.
    """
    if _has_locks(path):
        with FileLock(path, timeout=seconds):
            yield True
    else:
        yield False


def end_with_parent() -> None:
    """End this process of :mod:`multiprocessing` when its parent ends, even if the parent is killed."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _has_locks(path: Path) -> bool:
    # Releases of filelock differ here: an error, a wait for ever, or a file that a killed process leaves behind.
    try:
        import fcntl
    except ImportError:  # Windows, which has locks everywhere.
        return True
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename == str(path):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _sync_folder(folder: Path) -> None:
    # Without this the rename itself may be lost in a power cut. Windows cannot open folders and does not need it.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
