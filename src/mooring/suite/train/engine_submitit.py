"""Runs as jobs of SLURM through submitit; without SLURM, as processes that submitit starts on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.suite.train.config import ConfigError, parse_overrides
from mooring.suite.train.engine import cores
from mooring.suite.train.engine_local import last_lines
from mooring.suite.train.engine_ray import _run
from mooring.suite.train.run import Run

# Options of a job, as in "timeout_min=240 slurm_partition=gpu"; submitit has their names.
VARIABLE = "MOORING_SUBMITIT"
FOLDER = "submitit"
DAY = 24 * 60
# Jobs in SLURM's queue at a time.
QUEUED = 200


class SubmititEngine:
    """Submits :func:`mooring.suite.train.run.run_one` as jobs; a job that SLURM preempts is queued again and resumes.

    Jobs need the request's `out` and the current folder at the same place: a file system that all machines share.
    Submitit keeps its scripts and logs in the folder ``submitit`` under `out`.
    """

    def __init__(self) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ImportError("the submitit engine needs submitit: pip install 'mooring[slurm]'") from error
        self.submitit = submitit
        self.cluster = submitit.AutoExecutor.which()
        self.capacity = QUEUED if self.cluster == "slurm" else cores()

    def require(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self._executor(run)
            if self.cluster == "local":
                run.require_accelerator()

    def start(self, run: Run) -> SubmititJob:
        request = replace(run.request, out=run.request.out.absolute())
        task = Task(request.to_json(), os.getcwd(), [entry or os.getcwd() for entry in sys.path])
        return SubmititJob(self._executor(run).submit(task))

    def _executor(self, run: Run) -> Any:
        """An executor with what the run takes and what the user has set."""
        options: dict[str, Any] = {"timeout_min": DAY, "cpus_per_task": run.request.devices, "name": "mooring"}
        if run.request.accelerator == "cuda":
            options["gpus_per_node"] = run.request.devices
        chosen = parse_overrides(os.environ.get(VARIABLE, "").split(), VARIABLE)
        options |= {name: int(text) if text.isdigit() else text for name, text in chosen.items()}
        executor = self.submitit.AutoExecutor(run.request.out.absolute() / FOLDER, cluster=self.cluster)
        try:
            executor.update_parameters(**options)
        except (NameError, TypeError, ValueError, AssertionError) as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"{VARIABLE}={os.environ.get(VARIABLE, '')!r}: submitit refuses it: {said}") from error
        return executor


class Task:
    """A run in another process.

    Args:
        request: :meth:`RunRequest.to_json`.
        folder: where the command was called.
        path: where it imports from.
    """

    def __init__(self, request: str, folder: str, path: list[str]) -> None:
        self.request = request
        self.folder = folder
        self.path = path

    def __call__(self) -> str:
        sys.path += [entry for entry in self.path if entry not in sys.path]
        return _run(self.request, self.folder)

    def checkpoint(self) -> Any:
        """Return what SLURM queues again when it preempts the job; the run resumes from its own checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class SubmititJob:
    """One job."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def poll(self) -> str | None:
        if not self.job.done():
            return None
        error = self.job.exception()
        if error is None:
            return ""
        return f"job {self.job.job_id}; see {Path(self.job.paths.stderr)}:\n{last_lines(str(error).strip())}"

    def kill(self) -> None:
        self.job.cancel(check=False)
