"""Runs as jobs of submitit, whose local executor stands in for SLURM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.suite.train import ConfigError, RunRequest, RunsFailed, resolve, run_many, run_one
from mooring.suite.train.engines import VARIABLE, SubmititEngine, SubmititTask

REASON = "jobs of SLURM need submitit: pip install 'mooring[slurm]'"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def test_jobs_write_the_records_of_local_runs_and_a_failed_one_is_reported(
    toy: Callable[..., RunRequest], tmp_path: Path
) -> None:
    pytest.importorskip("submitit", reason=REASON)
    expected = run_one(toy(seed=0, out=tmp_path / "here"))
    working, failing = toy(seed=0), toy(seed=1, crash_seed=1)
    with pytest.raises(RunsFailed) as caught:
        run_many([working, failing], engine="submitit")
    (record,), ((request, reason),) = caught.value.records, caught.value.failures
    assert json.dumps(record.metrics) == json.dumps(expected.metrics)  # one of them is NaN
    assert request == failing
    assert "the toy fell over" in reason
    assert resolve(working).record_path.exists()
    assert any((tmp_path / "submitit").glob("*_log.out")), "no job of submitit"


def test_an_interrupted_sweep_ends_its_jobs(toy: Callable[..., RunRequest]) -> None:
    pytest.importorskip("submitit", reason=REASON)
    job = SubmititEngine().start(resolve(toy(sleep=60.0)))
    assert job.poll() is None
    job.kill()
    job.job.wait()
    assert "job" in str(job.poll())


def test_a_preempted_job_is_queued_again_as_it_was(toy: Callable[..., RunRequest]) -> None:
    pytest.importorskip("submitit", reason=REASON)
    task = SubmititTask(toy().to_json(), ".", [])
    assert task.checkpoint().function is task


def test_options_of_a_job_come_from_the_environment(
    toy: Callable[..., RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit", reason=REASON)
    engine, run = SubmititEngine(), resolve(toy(devices=2))
    monkeypatch.setenv(VARIABLE, "timeout_min=7 slurm_partition=gpu")
    parameters = engine._executor(run)._executor.parameters
    assert parameters["timeout_min"] == 7
    for wrong in ("timeout_minutes=7", "timeout_min"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(ConfigError, match=VARIABLE):
            engine.require(run)


def test_without_submitit_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ImportError, match=r"pip install 'mooring\[slurm\]'"):
        SubmititEngine()
