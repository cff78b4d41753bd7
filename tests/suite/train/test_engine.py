from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from mooring.suite.files import hold
from mooring.suite.train import Run, RunRequest, RunsFailed, engine, get_experiment, resolve, run_many, run_one
from mooring.suite.train.engines import WORKER, LocalEngine, LocalJob, worker_environment
from mooring.suite.train.run import LOCK
from mooring.suite.train.view import PROGRESS_FILE, PlainView, read_progress

Maker = Callable[..., RunRequest]


class FakeJob:
    """Ends after a few polls, in this process; whether it has made a record does not follow from what it says."""

    reason = ""
    crashing: tuple[int, ...] = ()

    def __init__(self, request: RunRequest, polls: int) -> None:
        self.request = request
        self.polls = polls
        self.killed = False

    def poll(self) -> str | None:
        self.polls -= 1
        if self.polls > 0:
            return None
        if self.request.seed not in self.crashing:
            run_one(self.request)
        return self.reason

    def kill(self) -> None:
        self.killed = True


class FakeEngine:
    capacity = 2

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.most = 0

    def require(self, run: Run) -> None:
        pass

    def start(self, run: Run) -> FakeJob:
        self.jobs.append(FakeJob(run.request, polls=3))
        self.most = max(self.most, sum(job.request.devices for job in self.jobs if job.polls > 0))
        return self.jobs[-1]


def other_process(request: RunRequest) -> AbstractContextManager[bool]:
    """The lock of a run, held as by another process that trains it."""
    folder = resolve(request).folder
    folder.mkdir(parents=True, exist_ok=True)
    return hold(folder / LOCK)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setitem(engine.ENGINES, "local", lambda: made)
    monkeypatch.setattr(engine, "POLL_SECONDS", 0.0)
    return made


@pytest.mark.parametrize(("workers", "most"), [(None, 2), (3, 3), (1, 1)])
def test_runs_start_in_order_and_no_more_than_workers(toy: Maker, fake: FakeEngine, workers: Any, most: int) -> None:
    requests = [toy(seed=seed, epochs=1) for seed in (4, 2, 7, 5)]
    records = run_many(requests, workers)
    assert [record.seed for record in records] == [4, 2, 7, 5]
    assert [job.request for job in fake.jobs] == requests
    assert fake.most == most


def test_finished_runs_are_not_started(toy: Maker, fake: FakeEngine) -> None:
    run_one(toy(seed=1, epochs=1))
    records = run_many([toy(seed=seed, epochs=1) for seed in (0, 1)])
    assert [job.request.seed for job in fake.jobs] == [0]
    assert [record.seed for record in records] == [0, 1]


@pytest.mark.parametrize("reason", ["", "exit code 1", "ended by SIGKILL"])
def test_success_is_a_readable_record_however_the_process_ended(
    toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(FakeJob, "reason", reason)
    monkeypatch.setattr(FakeJob, "crashing", (1,))
    with pytest.raises(RunsFailed) as caught:
        run_many([toy(seed=seed, epochs=1) for seed in (0, 1, 2)])
    assert [record.seed for record in caught.value.records] == [0, 2]
    assert [(request.seed, why) for request, why in caught.value.failures] == [(1, reason or "ended without a record")]


def test_an_unreadable_record_fails_its_run_alone(
    toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeJob, "crashing", (1,))
    monkeypatch.setattr(FakeJob, "kill", lambda self: pytest.fail("a run was killed for the record of another"))

    class Truncating(FakeJob):
        def poll(self) -> str | None:
            outcome = super().poll()
            if outcome is not None and self.request.seed == 1:
                resolve(self.request).record_path.write_text("{")
            return outcome

    monkeypatch.setattr(sys.modules[__name__], "FakeJob", Truncating)
    with pytest.raises(RunsFailed) as caught:
        run_many([toy(seed=seed, epochs=1) for seed in (0, 1, 2)])
    assert [record.seed for record in caught.value.records] == [0, 2]
    ((request, reason),) = caught.value.failures
    assert request.seed == 1
    assert "linear-seed1.json: not valid JSON" in reason


def test_what_another_process_trains_is_skipped_and_has_not_failed(
    toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "LOCK_SECONDS", 0.1)
    requests = [toy(seed=seed, epochs=1) for seed in (0, 1)]
    with other_process(requests[0]):
        assert [record.seed for record in run_many(requests)] == [1]
    assert [job.request.seed for job in fake.jobs] == [1]
    assert "linear seed 0: run by another process, skipped" in capsys.readouterr().err
    # What it left undone is done by the same call later.
    assert [record.seed for record in run_many(requests)] == [0, 1]


def test_what_another_process_finishes_or_leaves_meanwhile_is_not_skipped(
    toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [toy(seed=seed, epochs=1) for seed in (0, 1, 2)]
    finished, left = other_process(requests[0]), other_process(requests[1])
    finished.__enter__()
    left.__enter__()
    ticks: list[int] = []

    def tick(self: PlainView) -> None:
        ticks.append(1)
        if len(ticks) == 5:
            finished.__exit__(None, None, None)
            run_one(requests[0])
            left.__exit__(None, None, None)

    monkeypatch.setattr(PlainView, "tick", tick)
    assert [record.seed for record in run_many(requests)] == [0, 1, 2]
    assert [job.request.seed for job in fake.jobs] == [2, 1]


def test_an_interrupt_kills_what_runs(toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_many([toy(seed=seed) for seed in range(3)])
    assert [job.killed for job in fake.jobs] == [True, True]


def test_all_requests_are_checked_before_any_is_started(toy: Maker, fake: FakeEngine) -> None:
    with pytest.raises(ValueError, match="unknown field 'epoch'; did you mean 'epochs'"):
        run_many([toy(seed=0), toy(seed=1, epoch=3)])
    with pytest.raises(ValueError, match=r"two requests write .*linear-seed0\.json"):
        run_many([toy(), toy()])
    assert not fake.jobs


@pytest.mark.parametrize(
    ("models", "setting", "says"),
    [
        ("vn,anchored", {"heads": 3}, r"two-radius tiny anchored: .*heads"),
        ("mpnn,anchored", {"dropout": 2.0}, r"two-radius tiny mpnn: MemorySpec: dropout is 2.0"),
    ],
)
def test_networks_that_cannot_be_built_are_refused_before_any_run_starts(
    tmp_path: Path, fake: FakeEngine, models: str, setting: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        run_many([RunRequest("two-radius", model, 0, "tiny", setting, tmp_path) for model in models.split(",")])
    assert not fake.jobs


def test_the_random_state_is_left_alone_by_the_check_of_networks(toy: Maker, fake: FakeEngine) -> None:
    before = torch.random.get_rng_state()
    run_many([toy(epochs=1)])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, -2])
def test_no_workers_at_all_are_refused(toy: Maker, fake: FakeEngine, workers: int) -> None:
    with pytest.raises(ValueError, match=f"workers={workers}, expected 1 or more"):
        run_many([toy()], workers)
    assert not fake.jobs


def test_what_a_task_needs_is_missed_once_before_any_run_starts(
    toy: Maker, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_one(toy(seed=7, epochs=1))
    needed = {"no_such_solver": "mooring[links]"}
    monkeypatch.setattr(get_experiment("toy_experiment:Toy"), "requires", needed)
    with pytest.raises(ImportError, match=r"^toy: needs no_such_solver, .*: pip install 'mooring\[links\]'$"):
        run_many([toy(seed=seed, epochs=1) for seed in range(3)])
    assert not fake.jobs
    # A finished run needs nothing.
    assert len(run_many([toy(seed=7, epochs=1)])) == 1
    # The control: what is there is not missed.
    monkeypatch.setattr(get_experiment("toy_experiment:Toy"), "requires", {"torch": "torch"})
    assert len(run_many([toy(seed=0, epochs=1)])) == 1


def test_link_sets_without_the_solver_are_refused(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    with pytest.raises(ImportError, match=r"^linksets: needs ortools, .*pip install 'mooring\[links\]'"):
        run_many([RunRequest("linksets", "vn", 0, "tiny", {}, tmp_path)])
    assert not fake.jobs


def test_unknown_engine(toy: Maker) -> None:
    with pytest.raises(ValueError, match="unknown engine 'slurm'; the engines are local, ray, submitit"):
        run_many([toy()], engine="slurm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown engine 'locale'; did you mean 'local'"):
        run_many([toy()], engine="locale")  # type: ignore[arg-type]


def test_a_failing_run_is_reported_and_the_others_go_on(
    toy: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"crash_seed": 1, "epochs": 2}
    with pytest.raises(RunsFailed, match=r"1 of 2 runs failed: toy_experiment:Toy quick, .* linear seed 1\.") as caught:
        run_many([toy(seed=seed, **settings) for seed in (1, 0)], workers=2)
    ((request, reason),) = caught.value.failures
    assert request.seed == 1
    assert "exit code 1" in reason
    assert reason.endswith("RuntimeError: the toy fell over")
    assert "Traceback" not in reason
    assert "Traceback" in (resolve(request).folder / "log.txt").read_text()
    said = capsys.readouterr().err
    assert "seed 1: failed: exit code 1" in said
    assert "seed 0: finished in" in said
    # A worker's record is the one this process would have made.
    (record,) = caught.value.records
    same = run_one(toy(out=tmp_path / "here", **settings))
    assert json.dumps(record.metrics) == json.dumps(same.metrics)


def progressed(request: RunRequest) -> bool:
    return read_progress(resolve(request).folder / PROGRESS_FILE) is not None


def ranks_of(launcher: int) -> list[int]:
    """The processes that train one run together, in the order of their start; the first child tracks resources."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    named = [(int(child), Path(f"/proc/{child}/cmdline").read_text()) for child in children]
    return [child for child, command in named if "spawn_main" in command]


@pytest.mark.parametrize(
    ("number", "whom", "devices"),
    [(signal.SIGTERM, "worker", 1), (signal.SIGKILL, "worker", 1), (signal.SIGTERM, "rank", 2)],
)
def test_a_worker_ended_by_a_signal_is_one_failed_run_and_the_others_go_on(
    toy: Maker, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, whom: str, devices: int
) -> None:
    short = toy(seed=1, epochs=2)
    long = toy(epochs=10_000, sleep=0.01, devices=devices)
    jobs: list[LocalJob] = []
    monkeypatch.setattr(LocalEngine, "start", lambda self, run: jobs.append(LocalJob(run)) or jobs[-1])
    sent = []

    def end(self: PlainView) -> None:
        if not sent and resolve(short).record_path.exists() and progressed(long):
            sent.append(jobs[0].process.pid if whom == "worker" else ranks_of(jobs[0].process.pid)[-1])
            os.kill(sent[0], number)

    monkeypatch.setattr(PlainView, "tick", end)
    with pytest.raises(RunsFailed) as caught:
        run_many([long, short], workers=3)
    assert [record.seed for record in caught.value.records] == [1]
    ((request, reason),) = caught.value.failures
    assert request == long
    assert number.name in reason
    if whom == "worker":
        assert reason.startswith(f"ended by {number.name}, run again to resume it from its last checkpoint")


def test_a_worker_dies_with_its_parent(toy: Maker) -> None:
    request = toy(epochs=10_000, sleep=0.01)
    command = [*WORKER, request.to_json()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=worker_environment()) as worker:
        while read_progress(resolve(request).folder / PROGRESS_FILE) is None:
            assert worker.poll() is None
            time.sleep(0.05)
        assert worker.stdin is not None
        worker.stdin.close()  # As the system does when the parent is killed.
        assert worker.wait(timeout=10) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot be told to leave the current folder out")
def test_a_worker_imports_nothing_from_the_current_folder_unasked(
    toy: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('imported unasked')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (record,) = run_many([toy(epochs=1)], workers=1)
    assert record.seed == 0
