"""Many runs at once: which to start, when, and what to say about them. Where they run is the engine's business."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Literal, Protocol

from mooring.suite.train.config import did_you_mean
from mooring.suite.train.experiment import get_experiment
from mooring.suite.train.progress import PROGRESS_FILE, read_progress
from mooring.suite.train.record import Record
from mooring.suite.train.request import RunRequest
from mooring.suite.train.view import View, make_view

POLL_SECONDS = 0.2
ENGINES = ("local", "ray")


class RunsFailed(RuntimeError):
    """Some runs failed; the others were finished.

    Attributes:
        records: The finished runs' records.
        failures: The failed requests with the reasons.
    """

    def __init__(self, records: list[Record], failures: list[tuple[RunRequest, str]]) -> None:
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
        """None while it runs, "" once it has succeeded, otherwise the reason of the failure."""

    def kill(self) -> None:
        """End it now; its checkpoint stays."""


class Engine(Protocol):
    """Starts runs somewhere."""

    #: How many processes it can run at once.
    capacity: int

    def start(self, request: RunRequest) -> Job:
        """Start a run and return at once."""


def run_many(
    requests: Sequence[RunRequest], workers: int | None = None, engine: Literal["local", "ray"] = "local"
) -> list[Record]:
    """Run all requests, some at a time, with live progress, and return their records in the same order.

    All requests are checked before the first is started. Finished runs are not run again and killed ones go on, so the
    same call after an interruption does what is left.

    Args:
        requests: What to run.
        workers: Processes at a time, 1 or more; by default as many as there are cores (in the whole cluster, with Ray).
        engine: ``local`` for processes on this machine, ``ray`` for a Ray cluster (or a local one, if none is running).

    Raises:
        RunsFailed: At the end, when some runs failed.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"run_many: workers={workers}, expected 1 or more. Leave it out to use every core.")
    if engine not in ENGINES:
        guess = did_you_mean(engine, ENGINES)
        remedy = f"did you mean {guess!r}?" if guess else f"the engines are {', '.join(ENGINES)}."
        raise ValueError(f"run_many: unknown engine {engine!r}; {remedy}")
    _require_distinct(requests)
    done = {index: record for index, request in enumerate(requests) if (record := _finished(request)) is not None}
    waiting = [index for index in range(len(requests)) if index not in done]
    for task in dict.fromkeys(requests[index].task for index in waiting):
        get_experiment(task).check_requirements()
    failures: dict[int, str] = {}
    with make_view([str(request) for request in requests], [request.experiment() for request in requests]) as view:
        for index in done:
            view.finished(index, done[index], again=True)
        if waiting:
            _run_all(requests, waiting, _engine(engine), workers, view, done, failures)
    records = [done[index] for index in sorted(done)]
    if failures:
        raise RunsFailed(records, [(requests[index], failures[index]) for index in sorted(failures)])
    return records


def _run_all(
    requests: Sequence[RunRequest],
    waiting: list[int],
    engine: Engine,
    workers: int | None,
    view: View,
    done: dict[int, Record],
    failures: dict[int, str],
) -> None:
    capacity = workers or engine.capacity
    running: dict[int, Job] = {}
    try:
        while waiting or running:
            while waiting and (not running or _room(requests, running, waiting[0], capacity)):
                index = waiting.pop(0)
                # Left by an earlier start, and stale until the worker is up.
                (requests[index].folder / PROGRESS_FILE).unlink(missing_ok=True)
                running[index] = engine.start(requests[index])
                view.started(index)
            for index, job in list(running.items()):
                outcome = job.poll()
                if (progress := read_progress(requests[index].folder / PROGRESS_FILE)) is not None:
                    view.progress(index, progress)
                if outcome is None:
                    continue
                del running[index]
                if outcome:
                    failures[index] = outcome
                    view.failed(index, outcome)
                else:
                    done[index] = Record.read(requests[index].record_path)
                    view.finished(index, done[index])
            view.tick()
            time.sleep(POLL_SECONDS)
    finally:
        for job in running.values():
            job.kill()


def _room(requests: Sequence[RunRequest], running: dict[int, Job], index: int, capacity: int) -> bool:
    return sum(requests[other].devices for other in running) + requests[index].devices <= capacity


def _finished(request: RunRequest) -> Record | None:
    return request.finished(request.experiment())


def _require_distinct(requests: Sequence[RunRequest]) -> None:
    paths = [request.record_path for request in requests]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"run_many: two requests write {path}. Give them different seeds, models or --out.")


def _engine(name: str) -> Engine:
    if name == "local":
        from mooring.suite.train.engine_local import LocalEngine

        return LocalEngine()
    from mooring.suite.train.engine_ray import RayEngine

    return RayEngine()


def cores() -> int:
    """Return the cores this process may use, which in a container is fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
