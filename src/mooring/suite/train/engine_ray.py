"""Runs as tasks of a Ray cluster; a task whose process or machine dies is started again and resumes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.train.engine_local import last_lines, worker_environment
from mooring.suite.train.run import Run, RunRequest, resolve, run_one
from mooring.suite.train.view import PROGRESS_FILE, ProgressFile

RETRIES = 5


class RayEngine:
    """Starts :func:`mooring.suite.train.run.run_one` as remote tasks.

    Joins the cluster that is running or starts one on this machine. Checkpoints are under the request's `out`: with
    several machines it must be a folder they share, so that a task that moves to another machine can resume there; live
    progress goes through the same folder.
    """

    def __init__(self) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("the ray engine needs Ray: pip install mooring[scale]") from error
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        self.ray = ray
        self.capacity = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def start(self, run: Run) -> RayJob:
        variables = {name: worker_environment()[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        remote = self.ray.remote(_run).options(
            num_cpus=run.request.devices, max_retries=RETRIES, runtime_env={"env_vars": variables}
        )
        return RayJob(self.ray, remote.remote(run.request.to_json()), run.record_path)


class RayJob:
    """One remote task."""

    def __init__(self, ray: Any, task: Any, record_path: Path) -> None:
        self.ray = ray
        self.task = task
        self.record_path = record_path

    def poll(self) -> str | None:
        ready, _ = self.ray.wait([self.task], timeout=0)
        if not ready:
            return None
        try:
            text = self.ray.get(self.task)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            return last_lines(str(error)) if cause is None else f"{type(cause).__name__}: {last_lines(str(cause))}"
        # Where the folder is not shared, the record exists on the other machine only.
        if not self.record_path.exists():
            write_atomic(self.record_path, text)
        return ""

    def kill(self) -> None:
        self.ray.cancel(self.task, force=True)


def _run(text: str) -> str:
    request = RunRequest.from_json(text)
    return run_one(request, ProgressFile(resolve(request).folder / PROGRESS_FILE)).to_text()
