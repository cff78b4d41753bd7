"""Runs as processes on this machine, one thread each."""

from __future__ import annotations

import os
import subprocess
import sys

from mooring.suite.train.engine import cores
from mooring.suite.train.request import RunRequest

LOG_LINES = 15
# Begins the line of a worker's log that says why it failed; what comes before is for whoever opens the log.
FAILED = "failed: "


class LocalEngine:
    """Starts ``python -m mooring.suite.train.worker``; output goes to ``log.txt`` in the run's folder."""

    def __init__(self) -> None:
        self.capacity = cores()

    def start(self, request: RunRequest) -> LocalJob:
        return LocalJob(request)


class LocalJob:
    """One worker process."""

    def __init__(self, request: RunRequest) -> None:
        request.folder.mkdir(parents=True, exist_ok=True)
        self.log = request.folder / "log.txt"
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mooring.suite.train.worker", request.to_json()],
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
        if code == 0:
            return ""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            said = log.read().decode(errors="replace")
        *_, reason = f"\n{said}".rsplit(f"\n{FAILED}", 1)
        if reason == f"\n{said}":
            return f"exit code {code}; the end of {self.log}:\n{last_lines(said)}"
        return f"exit code {code}; see {self.log}:\n{last_lines(reason)}"

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


def worker_environment() -> dict[str, str]:
    """Return this process's environment with one thread, and its import path, so that a worker finds what we find."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}


def last_lines(text: str) -> str:
    """Return the end of a log or traceback, where the reason is."""
    return "\n".join(text.splitlines()[-LOG_LINES:])
