from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.suite.train import RunRequest, RunsFailed, resolve, run_many, run_one


@pytest.fixture
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="runs on a cluster need Ray: pip install 'mooring[scale]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        yield
        ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_killed_task_resumes_a_finished_one_is_kept_and_a_failed_one_is_reported(
    toy: Callable[..., RunRequest], tmp_path: Path
) -> None:
    marker = tmp_path / "killed-once"
    finished, dying, failing = toy(seed=2), toy(die_once=str(marker)), toy(seed=1, crash_seed=1)
    run_one(finished)
    before = resolve(finished).record_path.read_bytes()
    with pytest.raises(RunsFailed) as caught:
        run_many([finished, dying, failing], engine="ray")
    ((request, reason),) = caught.value.failures
    kept, record = caught.value.records
    assert marker.exists(), "no process was killed"
    assert kept.seed == 2
    assert resolve(finished).record_path.read_bytes() == before, "a finished run was run again"
    assert request == failing
    assert "the toy fell over" in reason
    # The marker is there now, so the same config runs through, here and without Ray.
    local = run_one(toy(die_once=str(marker), out=tmp_path / "local"))
    assert json.dumps(record.metrics) == json.dumps(local.metrics)
    assert record.diagnostics == local.diagnostics


def test_without_ray_the_message_says_what_to_install(
    toy: Callable[..., RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r"the ray engine needs Ray: pip install mooring\[scale\]"):
        run_many([toy()], engine="ray")
    assert not os.path.exists(resolve(toy()).record_path)
