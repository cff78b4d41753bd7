"""Runs as tasks of a Ray cluster; a task whose process or machine dies is started again and resumes."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.train.config import ConfigError
from mooring.suite.train.engine_local import last_lines, worker_environment
from mooring.suite.train.run import Run, RunRequest, resolve, run_one
from mooring.suite.train.view import PROGRESS_FILE, ProgressFile

RETRIES = 5
# Variables of a task: how it computes and imports, and the folders it reads.
COMPUTES, READS = ("PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), ("MOORING_CACHE", "MOORING_DATA")


class RayEngine:
    """Starts :func:`mooring.suite.train.run.run_one` as remote tasks.

    Joins the cluster that is running or starts one on this machine. Checkpoints are under the request's `out`: with
    several machines it must be a folder they share, so that a task that moves to another machine can resume there; live
    progress goes through the same folder. Relative folders are those of this process, wherever a task runs.
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

    def require(self, runs: Sequence[Run]) -> None:
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        for run in runs:
            needs = _needs(run)
            if not any(all(machine.get(kind, 0) >= count for kind, count in needs.items()) for machine in machines):
                wanted = " and ".join(f"{count} {kind}" for kind, count in needs.items())
                have = dict.fromkeys(f"{item.get('CPU', 0):g} CPU and {item.get('GPU', 0):g} GPU" for item in machines)
                raise ConfigError(
                    f"{run.request}: devices={run.request.devices} on {run.request.accelerator} takes {wanted} of one "
                    f"machine, and the machines of the Ray cluster have {', or '.join(have)}. Lower --devices, or "
                    "start Ray on a machine that has them (ray start --num-cpus, --num-gpus)."
                )

    def start(self, run: Run) -> RayJob:
        environment = worker_environment()
        folders = {name: str(Path(os.environ[name]).absolute()) for name in READS if os.environ.get(name)}
        needs = _needs(run)
        remote = self.ray.remote(_run).options(
            num_cpus=needs["CPU"],
            num_gpus=needs.get("GPU", 0),
            max_retries=RETRIES,
            runtime_env={"env_vars": {name: environment[name] for name in COMPUTES} | folders},
        )
        request = replace(run.request, out=run.request.out.absolute())
        return RayJob(self.ray, remote.remote(request.to_json(), os.getcwd()), run.record_path)


def _needs(run: Run) -> dict[str, int]:
    """Return what a run takes of one machine."""
    devices = run.request.devices
    return {"CPU": devices, "GPU": devices} if run.request.accelerator == "cuda" else {"CPU": devices}


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


def _run(text: str, folder: str) -> str:
    # A machine that does not share the folder has its data at another path (MOORING_DATA).
    with contextlib.suppress(OSError):
        os.chdir(folder)
    request = RunRequest.from_json(text)
    return run_one(request, ProgressFile(resolve(request).folder / PROGRESS_FILE)).to_text()
