"""Runs as processes on this machine, one per run, with one thread each.

Run as a module, ``python -m mooring.suite.train.engine_local REQUEST_AS_JSON``, it is such a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence

from mooring.suite.records import RecordError
from mooring.suite.train.engine import cores
from mooring.suite.train.run import Run, RunRequest, resolve, run_one
from mooring.suite.train.view import PROGRESS_FILE, ProgressFile

LOG_LINES = 15
# Begins the line of a worker's log with the reason of its failure; the lines before it are details.
FAILED = "failed: "
# -P keeps the current folder off sys.path, where a file could shadow the standard library. Python 3.10 lacks it.
SAFE_PATH_FLAGS = ("-P",) if sys.version_info >= (3, 11) else ()


class LocalEngine:
    """An engine that starts a process per run; its output goes to ``log.txt`` in the run's folder."""

    def __init__(self) -> None:
        self.capacity = cores()

    def require(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.require_accelerator()

    def start(self, run: Run) -> LocalJob:
        return LocalJob(run)


class LocalJob:
    """One worker process."""

    def __init__(self, run: Run) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        self.log = run.folder / "log.txt"
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *SAFE_PATH_FLAGS, "-m", "mooring.suite.train.engine_local", run.request.to_json()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=worker_environment(),
                # Its own session, so that Ctrl-C reaches the parent alone, which then ends its workers in order.
                start_new_session=True,
            )

    def poll(self) -> str | None:
        code = self.process.poll()
        if code is None:
            return None
        self._close()
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            said = log.read().decode(errors="replace")
        *_, reason = f"\n{said}".rsplit(f"\n{FAILED}", 1)
        if reason == f"\n{said}":
            return f"{_ended(code)}; the end of {self.log}:\n{last_lines(said)}"
        return f"{_ended(code)}; see {self.log}:\n{last_lines(reason)}"

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


def _ended(code: int) -> str:
    """Return an exit code as text; shells and :func:`mooring.suite.train.fit.fit` add 128 to the number of a signal.

    >>> _ended(1), _ended(-15) == _ended(143)
    ('exit code 1', True)
    """
    number = -code if code < 0 else code - 128
    if number not in {int(known) for known in signal.valid_signals()}:
        return f"exit code {code}"
    name = signal.Signals(number).name
    return f"ended by {name}, run again to resume it from its last checkpoint"


def worker_environment() -> dict[str, str]:
    """Return this process's environment with one thread and its import path, so that workers import the same code."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}


def last_lines(text: str) -> str:
    """Return the end of a log or traceback, where the reason is."""
    return "\n".join(text.splitlines()[-LOG_LINES:])


def work(arguments: list[str]) -> int:
    """Run a request; return 0 when its record is written, otherwise 1, with the reason as the last line on stderr."""
    request = RunRequest.from_json(arguments[0])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_one(request, ProgressFile(resolve(request).folder / PROGRESS_FILE))
    except (RecordError, ArithmeticError) as error:
        # These messages give advice; a traceback would hide them.
        print(f"{FAILED}{error}", file=sys.stderr)
        return 1
    except Exception as error:
        traceback.print_exc()
        print(f"{FAILED}{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with_parent() -> None:
    # The parent holds the other end of stdin and never writes: stdin ends when the parent does, even by SIGKILL.
    # Without this, orphans would keep training beside the workers of the next start.
    # Read without Python's buffer: a thread that waits in it would hold its lock when the interpreter shuts down.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(work(sys.argv[1:]))
