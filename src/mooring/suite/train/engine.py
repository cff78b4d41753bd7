"""Many runs at once: their order, their start and their outcome. The engine decides where they run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import torch

from mooring.named import suggest
from mooring.suite.records import RecordError, RunRecord
from mooring.suite.train.config import ConfigError
from mooring.suite.train.engines import ENGINES, Engine, Job
from mooring.suite.train.run import LOCK_SECONDS, Run, RunRequest, resolve
from mooring.suite.train.view import PROGRESS_FILE, PlainView, make_view, read_progress

POLL_SECONDS = 0.2


class RunsFailed(RuntimeError):
    """Some runs failed; the others were finished, or belong to another process.

    Attributes:
        records: the finished runs' records.
        failures: the failed requests with the reasons.
    """

    def __init__(self, records: list[RunRecord], failures: list[tuple[RunRequest, str]], elsewhere: int) -> None:
        names = "; ".join(str(request) for request, _ in failures)
        total = len(records) + len(failures) + elsewhere
        others = "The others are finished" + (f", but for {elsewhere} run by another process" if elsewhere else "")
        super().__init__(f"{len(failures)} of {total} runs failed: {names}. {others}; run again to retry.")
        self.records = records
        self.failures = failures


def run_many(
    requests: Sequence[RunRequest], workers: int | None = None, engine: Literal["local", "ray", "submitit"] = "local"
) -> list[RunRecord]:
    """Run all requests, some at a time, with live progress, and return their records in the same order.

    All requests are checked before the first is started. Finished runs are not run again and killed ones resume. Runs
    that another process is training are left to it and are not in the list.

    Args:
        requests: what to run.
        workers: processes at a time, 1 or more; by default as many as there are cores (in the whole cluster, with Ray).
        engine: ``local`` for processes on this machine, ``ray`` for a Ray cluster (or a local one, if none is running),
            ``submitit`` for jobs of SLURM.

    Raises:
        RunsFailed: At the end, when some runs failed.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"run_many: workers={workers}, expected 1 or more. Leave it out to use every core.")
    if engine not in ENGINES:
        meant = suggest(engine, ENGINES, f"the engines are {', '.join(ENGINES)}.")
        raise ValueError(f"run_many: unknown engine {engine!r}; {meant}")
    runs = [resolve(request) for request in requests]
    for path, count in Counter(run.record_path for run in runs).items():
        if count > 1:
            raise ValueError(f"run_many: two requests write {path}. Give them different seeds, models or --out.")
    done = {index: record for index, run in enumerate(runs) if (record := run.finished()) is not None}
    waiting = [index for index in range(len(runs)) if index not in done]
    for kind in dict.fromkeys(type(runs[index].experiment) for index in waiting):
        kind.check_requirements()
    for index in waiting:
        runs[index].experiment.check_inputs()
    networks = {(run.record_path.parent, run.request.model): run for run in (runs[index] for index in waiting)}
    for run in networks.values():
        _check_network(run)
    with make_view([str(request) for request in requests], [run.experiment for run in runs]) as view:
        for index, record in done.items():
            view.finished(index, record, again=True)
        sweep = Sweep(runs, done, view)
        if waiting:
            chosen = ENGINES[engine]()
            for index in waiting:
                chosen.require(runs[index])
            sweep.run(waiting, chosen, workers or chosen.capacity)
    records = [done[index] for index in sorted(done)]
    if sweep.failed:
        failures = [(requests[index], sweep.failed[index]) for index in sorted(sweep.failed)]
        raise RunsFailed(records, failures, len(sweep.elsewhere))
    return records


class Sweep:
    """Runs and their outcomes by number: a record, the reason of a failure, or another process that is training it."""

    def __init__(self, runs: Sequence[Run], done: dict[int, RunRecord], view: PlainView) -> None:
        self.runs = runs
        self.done = done
        self.view = view
        self.failed: dict[int, str] = {}
        self.elsewhere: list[int] = []

    def run(self, waiting: list[int], engine: Engine, capacity: int) -> None:
        """Run what is waiting, in order; kill what is running when interrupted."""
        running: dict[int, Job] = {}
        # Workers of a command that was just killed hold their locks until they notice.
        patient_until = time.monotonic() + LOCK_SECONDS
        try:
            while waiting or running:
                for index in list(waiting):
                    if running and sum(self.runs[run].request.devices for run in (*running, index)) > capacity:
                        break
                    if self.runs[index].under_way():
                        continue
                    waiting.remove(index)
                    if not self._settle(index, again=True):
                        # Left by an earlier start, and out of date until the worker is up.
                        (self.runs[index].folder / PROGRESS_FILE).unlink(missing_ok=True)
                        running[index] = engine.start(self.runs[index])
                        self.view.started(index)
                if not running and time.monotonic() >= patient_until:
                    self.elsewhere, waiting = waiting, []
                for index, job in list(running.items()):
                    reason = job.poll()
                    if (progress := read_progress(self.runs[index].folder / PROGRESS_FILE)) is not None:
                        self.view.progress(index, progress)
                    if reason is not None:
                        del running[index]
                        if self._settle(index):
                            continue
                        if self.runs[index].under_way():
                            waiting.append(index)
                        else:
                            self._fail(index, reason or "ended without a record")
                self.view.tick()
                time.sleep(POLL_SECONDS)
        finally:
            for job in running.values():
                job.kill()
        for index in self.elsewhere:
            self.view.ended(index, "run by another process, skipped")

    def _settle(self, index: int, again: bool = False) -> bool:
        """Return whether the run has a record; a readable one is success, however its process ended."""
        try:
            record = self.runs[index].finished()
        except RecordError as error:
            self._fail(index, str(error))
            return True
        if record is not None:
            self.done[index] = record
            self.view.finished(index, record, again)
        return record is not None

    def _fail(self, index: int, reason: str) -> None:
        self.failed[index] = reason
        self.view.ended(index, f"failed: {reason}")


def _check_network(run: Run) -> None:
    """Raise ConfigError if the network cannot be built with the options of the run."""
    try:
        with torch.random.fork_rng(devices=[]):
            run.experiment.build()
    except ValueError as error:
        raise ConfigError(f"{run.request.task} {run.request.preset} {run.request.model}: {error}") from error
    except Exception:  # the run fails with it, and its log has the traceback
        return
