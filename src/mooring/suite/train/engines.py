"""Engines: processes on this machine, tasks of a Ray cluster, or jobs of SLURM.

An engine has a ``capacity`` of processes, ``require(run)``, which raises ValueError if a run asks for more than there
is, and ``start(run)``, which returns a job at once. A job has ``poll()``, which returns None while it runs and then why
it ended, which matters only if it left no record, and ``kill()``, after which its checkpoint stays.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.records import RecordError, RunRecord
from mooring.suite.train.config import ConfigError, parse_overrides
from mooring.suite.train.run import Run, RunRequest, resolve, run_one
from mooring.suite.train.view import PROGRESS_FILE, ProgressFile

LOG_LINES = 15
# Begins the line of a worker's log with the reason of its failure; the lines before it are details.
FAILED = "failed: "
# -P keeps the current folder off sys.path, where a file could shadow the standard library. Python 3.10 lacks it.
WORKER = [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-c"]
WORKER += ["import sys; from mooring.suite.train.engines import work; sys.exit(work(sys.argv[1]))"]
# A task of Ray that is started again resumes.
RETRIES = 5
# Variables of such a task: how it computes and imports, and the folders it reads.
COMPUTES, READS = ("PYTHONPATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), ("MOORING_CACHE", "MOORING_DATA")
# Options of a job of submitit, by its names, as in "timeout_min=240 slurm_partition=gpu".
VARIABLE = "MOORING_SUBMITIT"
DAY = 24 * 60
# Jobs in SLURM's queue at a time.
QUEUED = 200


def cores() -> int:
    """Return the cores this process may use, which in a container is fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalEngine:
    """Starts a process with one thread per run on this machine; its output goes to ``log.txt`` in the run's folder."""

    def __init__(self) -> None:
        self.capacity = cores()

    def require(self, run: Run) -> None:
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
                [*WORKER, run.request.to_json()],
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
            _, failed, reason = f"\n{log.read().decode(errors='replace')}".rpartition(f"\n{FAILED}")
        place = f"see {self.log}" if failed else f"the end of {self.log}"
        return f"{_ended(code)}; {place}:\n{last_lines(reason)}"

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
    return f"ended by {signal.Signals(number).name}, run again to resume it from its last checkpoint"


def worker_environment() -> dict[str, str]:
    """Return this process's environment with one thread and its import path, so that workers import the same code."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}


def last_lines(text: str) -> str:
    """Return the end of a log or traceback, where the reason is."""
    return "\n".join(text.splitlines()[-LOG_LINES:])


def run_with_progress(text: str) -> RunRecord:
    """Run a request of :meth:`RunRequest.to_json` in a worker and write its progress to a file."""
    request = RunRequest.from_json(text)
    return run_one(request, ProgressFile(resolve(request).folder / PROGRESS_FILE))


def work(request: str) -> int:
    """Run a request; return 0 when its record is written, otherwise 1, with the reason as the last line on stderr."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_with_progress(request)
    except Exception as error:
        if isinstance(error, (RecordError, ArithmeticError)):
            # These messages give advice; a traceback would hide them.
            print(f"{FAILED}{error}", file=sys.stderr)
        else:
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


class RayEngine:
    """Starts runs as tasks of the running Ray cluster, or of a new one on this machine; tasks that die resume.

    With several machines `out` must be a folder they share: checkpoints and progress are there, so that a task can move
    to another machine. Relative folders are those of this process.
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

    def require(self, run: Run) -> None:
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        needs = _needs(run)
        if not any(all(machine.get(kind, 0) >= count for kind, count in needs.items()) for machine in machines):
            takes = " and ".join(f"{count} {kind}" for kind, count in needs.items())
            have = dict.fromkeys(f"{item.get('CPU', 0):g} CPU and {item.get('GPU', 0):g} GPU" for item in machines)
            raise ConfigError(
                f"{run.request}: devices={run.request.devices} on {run.request.accelerator} takes {takes} of one "
                f"machine, and the machines of the Ray cluster have {', or '.join(have)}. Lower --devices, or "
                "start Ray on a machine that has them (ray start --num-cpus, --num-gpus)."
            )

    def start(self, run: Run) -> RayJob:
        environment = worker_environment()
        folders = {name: str(Path(os.environ[name]).absolute()) for name in READS if os.environ.get(name)}
        needs = _needs(run)
        remote = self.ray.remote(_run_in_folder).options(
            num_cpus=needs["CPU"],
            num_gpus=needs.get("GPU", 0),
            max_retries=RETRIES,
            runtime_env={"env_vars": {name: environment[name] for name in COMPUTES} | folders},
        )
        return RayJob(self.ray, remote.remote(_portable(run), os.getcwd()), run.record_path)


@dataclass
class RayJob:
    """One remote task."""

    ray: Any
    task: Any
    record_path: Path

    def poll(self) -> str | None:
        ready, _ = self.ray.wait([self.task], timeout=0)
        if not ready:
            return None
        try:
            text = self.ray.get(self.task)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            return last_lines(str(error)) if cause is None else f"{type(cause).__name__}: {last_lines(str(cause))}"
        # Without a shared folder the record exists on the other machine only.
        if not self.record_path.exists():
            write_atomic(self.record_path, text)
        return ""

    def kill(self) -> None:
        self.ray.cancel(self.task, force=True)


class SubmititEngine:
    """Submits runs as jobs of SLURM through submitit; without SLURM, as processes that submitit starts here.

    A job that SLURM preempts is queued again and resumes. All machines must share `out`, which also holds submitit's
    scripts and logs, and the current folder.
    """

    def __init__(self) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ImportError("the submitit engine needs submitit: pip install 'mooring[slurm]'") from error
        self.submitit = submitit
        self.cluster = submitit.AutoExecutor.which()
        self.capacity = QUEUED if self.cluster == "slurm" else cores()

    def require(self, run: Run) -> None:
        self._executor(run)
        if self.cluster == "local":
            run.require_accelerator()

    def start(self, run: Run) -> SubmititJob:
        task = SubmititTask(_portable(run), os.getcwd(), [entry or os.getcwd() for entry in sys.path])
        return SubmititJob(self._executor(run).submit(task))

    def _executor(self, run: Run) -> Any:
        """Return an executor with the devices of the run and the options of the user."""
        options: dict[str, Any] = {"timeout_min": DAY, "cpus_per_task": run.request.devices, "name": "mooring"}
        if run.request.accelerator == "cuda":
            options["gpus_per_node"] = run.request.devices
        text = os.environ.get(VARIABLE, "")
        chosen = parse_overrides(text.split(), VARIABLE)
        options |= {name: int(value) if value.isdigit() else value for name, value in chosen.items()}
        executor = self.submitit.AutoExecutor(run.request.out.absolute() / "submitit", cluster=self.cluster)
        try:
            executor.update_parameters(**options)
        except (NameError, TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"{VARIABLE}={text!r}: submitit refuses it: {' '.join(str(error).split())}") from error
        return executor


@dataclass
class SubmititTask:
    """A run in another process: its request as JSON, and folder and import path of the command."""

    request: str
    folder: str
    path: list[str]

    def __call__(self) -> str:
        sys.path += [entry for entry in self.path if entry not in sys.path]
        return _run_in_folder(self.request, self.folder)

    def checkpoint(self) -> Any:
        """Return what SLURM queues again when it preempts the job; the run resumes from its own checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass
class SubmititJob:
    """One job."""

    job: Any

    def poll(self) -> str | None:
        if not self.job.done():
            return None
        error = self.job.exception()
        if error is None:
            return ""
        return f"job {self.job.job_id}; see {Path(self.job.paths.stderr)}:\n{last_lines(str(error).strip())}"

    def kill(self) -> None:
        self.job.cancel(check=False)


def _needs(run: Run) -> dict[str, int]:
    """Return the resources of one machine that a run takes."""
    devices = run.request.devices
    return {"CPU": devices, "GPU": devices} if run.request.accelerator == "cuda" else {"CPU": devices}


def _portable(run: Run) -> str:
    """Return the request for a process in another folder."""
    return replace(run.request, out=run.request.out.absolute()).to_json()


def _run_in_folder(request: str, folder: str) -> str:
    # A machine that does not share the folder has its data at another path (MOORING_DATA).
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return run_with_progress(request).to_text()


Engine = LocalEngine | RayEngine | SubmititEngine
Job = LocalJob | RayJob | SubmititJob
ENGINES: dict[str, type[Engine]] = {"local": LocalEngine, "ray": RayEngine, "submitit": SubmititEngine}
