"""Many runs at once: which to start, when, and what to report. Where they run is up to the engine.

The local engine is here: one process per run, one thread each (:mod:`mooring.suite.train.worker`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Literal, Protocol

import torch

from mooring.named import suggest
from mooring.suite.records import RunRecord
from mooring.suite.train.config import ConfigError
from mooring.suite.train.run import Run, RunRequest, resolve
from mooring.suite.train.view import PROGRESS_FILE, View, make_view, read_progress

POLL_SECONDS = 0.2
ENGINES = ("local", "ray")
LOG_LINES = 15
# Begins the line of a worker's log that says why it failed; the lines before it are details.
FAILED = "failed: "


class RunsFailed(RuntimeError):
    """Some runs failed; the others were finished.

    Attributes:
        records: the finished runs' records.
        failures: the failed requests with the reasons.
    """

    def __init__(self, records: list[RunRecord], failures: list[tuple[RunRequest, str]]) -> None:
        names = "; ".join(str(request) for request, _ in failures)
        total = len(records) + len(failures)
        super().__init__(
            f"{len(failures)} of {total} runs failed: {names}. The others are finished; run again to retry."
        )
        self.records = records
        self.failures = failures


class Job(Protocol):
    """A run under way."""

    def poll(self) -> str | None:
        """None while it runs, "" once it has succeeded, otherwise the reason for the failure."""

    def kill(self) -> None:
        """End it now; its checkpoint stays."""


class Engine(Protocol):
    """Starts runs somewhere."""

    #: How many processes it can run at once.
    capacity: int

    def start(self, run: Run) -> Job:
        """Start a run and return at once."""


def run_many(
    requests: Sequence[RunRequest], workers: int | None = None, engine: Literal["local", "ray"] = "local"
) -> list[RunRecord]:
    """Run all requests, some at a time, with live progress, and return their records in the same order.

    All requests are checked before the first is started. Finished runs are not run again and killed ones resume, so the
    same call after an interruption does the rest.

    Args:
        requests: what to run.
        workers: processes at a time, 1 or more; by default as many as there are cores (in the whole cluster, with Ray).
        engine: ``local`` for processes on this machine, ``ray`` for a Ray cluster (or a local one, if none is running).

    Raises:
        RunsFailed: At the end, when some runs failed.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"run_many: workers={workers}, expected 1 or more. Leave it out to use every core.")
    if engine not in ENGINES:
        meant = suggest(engine, ENGINES, f"the engines are {', '.join(ENGINES)}.")
        raise ValueError(f"run_many: unknown engine {engine!r}; {meant}")
    runs = [resolve(request) for request in requests]
    _require_distinct(runs)
    done = {index: record for index, run in enumerate(runs) if (record := run.finished()) is not None}
    waiting = [index for index in range(len(runs)) if index not in done]
    for kind in dict.fromkeys(type(runs[index].experiment) for index in waiting):
        kind.check_requirements()
    for index in waiting:
        runs[index].experiment.check_inputs()
    _require_networks([runs[index] for index in waiting])
    failures: dict[int, str] = {}
    with make_view([str(request) for request in requests], [run.experiment for run in runs]) as view:
        for index in done:
            view.finished(index, done[index], again=True)
        if waiting:
            _run_all(runs, waiting, _engine(engine), workers, view, done, failures)
    records = [done[index] for index in sorted(done)]
    if failures:
        raise RunsFailed(records, [(requests[index], failures[index]) for index in sorted(failures)])
    return records


def _run_all(
    runs: Sequence[Run],
    waiting: list[int],
    engine: Engine,
    workers: int | None,
    view: View,
    done: dict[int, RunRecord],
    failures: dict[int, str],
) -> None:
    capacity = workers or engine.capacity
    running: dict[int, Job] = {}
    try:
        while waiting or running:
            while waiting and (not running or _room(runs, running, waiting[0], capacity)):
                index = waiting.pop(0)
                # Left by an earlier start, and out of date until the worker is up.
                (runs[index].folder / PROGRESS_FILE).unlink(missing_ok=True)
                running[index] = engine.start(runs[index])
                view.started(index)
            for index, job in list(running.items()):
                outcome = job.poll()
                if (progress := read_progress(runs[index].folder / PROGRESS_FILE)) is not None:
                    view.progress(index, progress)
                if outcome is None:
                    continue
                del running[index]
                if outcome:
                    failures[index] = outcome
                    view.failed(index, outcome)
                else:
                    done[index] = RunRecord.read(runs[index].record_path)
                    view.finished(index, done[index])
            view.tick()
            time.sleep(POLL_SECONDS)
    finally:
        for job in running.values():
            job.kill()


def _room(runs: Sequence[Run], running: dict[int, Job], index: int, capacity: int) -> bool:
    return sum(runs[other].request.devices for other in (*running, index)) <= capacity


def _require_distinct(runs: Sequence[Run]) -> None:
    for path, count in Counter(run.record_path for run in runs).items():
        if count > 1:
            raise ValueError(f"run_many: two requests write {path}. Give them different seeds, models or --out.")


def _require_networks(runs: Sequence[Run]) -> None:
    """Build the network of every model and config once, so that options which do not go together end no run halfway."""
    for run in {(run.experiment.name, run.request.model, repr(run.experiment.config)): run for run in runs}.values():
        _require_network(run)


def _require_network(run: Run) -> None:
    """ConfigError if the network refuses its options. Of any other error the run itself tells, with its log."""
    try:
        with torch.random.fork_rng(devices=[]):
            run.experiment.build()
    except ValueError as error:
        raise ConfigError(f"{run.request.task} {run.request.preset} {run.request.model}: {error}") from error
    except Exception:
        return


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    from mooring.suite.train.engine_ray import RayEngine

    return RayEngine()


def cores() -> int:
    """Return the cores this process may use, which in a container is fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Not from the current folder, unless this process imports from there: a file may be called like a module of Python.
# Python 3.10 has no such switch.
ELSEWHERE = ("-P",) if sys.version_info >= (3, 11) else ()


class LocalEngine:
    """Starts ``python -m mooring.suite.train.worker``; output goes to ``log.txt`` in the run's folder."""

    def __init__(self) -> None:
        self.capacity = cores()

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
                [sys.executable, *ELSEWHERE, "-m", "mooring.suite.train.worker", run.request.to_json()],
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
    """Return this process's environment with one thread, and its import path, so that a worker imports what we do."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}


def last_lines(text: str) -> str:
    """Return the end of a log or traceback, where the reason is."""
    return "\n".join(text.splitlines()[-LOG_LINES:])
