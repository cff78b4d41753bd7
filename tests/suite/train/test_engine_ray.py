from __future__ import annotations

import json
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.train import RunRequest, RunsFailed, resolve, run_many, run_one
from mooring.suite.train.engines import RayEngine
from mooring.suite.train.view import PROGRESS_FILE, PlainView, read_progress


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two machines of one CPU each, on this one: loopback only, and nobody without the token joins them."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Before Ray is imported, which reads them once.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray = pytest.importorskip("ray", reason="runs on a cluster need Ray: pip install 'mooring[scale]'")
        from ray.cluster_utils import Cluster

        # Not where the tests run: a cluster is started by somebody else, somewhere else.
        patch.chdir(tmp_path_factory.mktemp("started-here"))
        # Ray replaces 127.0.0.1 by the address of the network.
        machine = {"num_cpus": 1, "include_dashboard": False}
        machines = Cluster(initialize_head=True, head_node_args={**machine, "node_ip_address": "127.0.0.2"})
        try:
            machines.second = machines.add_node(**machine, node_ip_address="127.0.0.3")
            patch.setenv("RAY_ADDRESS", machines.address)
            yield machines
        finally:
            ray.shutdown()
            machines.shutdown()


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


@pytest.mark.usefixtures("cluster")
def test_relative_folders_reach_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOORING_DATA", "data")
    monkeypatch.setenv("MOORING_CACHE", "cache")
    (record,) = run_many([RunRequest("toy_experiment:Placed", "linear", 0, "quick", {}, Path("runs"))], engine="ray")
    assert list(tmp_path.glob("runs/**/*-seed0.json"))
    assert record.diagnostics == {
        "folder": str(tmp_path),
        "MOORING_DATA": str(tmp_path / "data"),
        "MOORING_CACHE": str(tmp_path / "cache"),
    }


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("devices", "accelerator", "takes"), [(3, "cpu", "3 CPU"), (1, "cuda", "1 CPU and 1 GPU"), (2, "cpu", "2 CPU")]
)
def test_a_run_that_no_machine_can_take_is_refused(
    toy: Callable[..., RunRequest], devices: int, accelerator: str, takes: str
) -> None:
    request = replace(toy(devices=devices), accelerator=accelerator)
    says = rf"linear seed 0: devices={devices} on {accelerator} takes {takes} of one machine, .* have 1 CPU and 0 GPU\."
    with pytest.raises(ValueError, match=says):
        run_many([request], engine="ray")


@pytest.mark.parametrize(("accelerator", "gpus"), [("cpu", 0), ("cuda", 2)])
def test_gpus_are_asked_for_where_the_run_trains_on_them(
    toy: Callable[..., RunRequest], accelerator: str, gpus: int
) -> None:
    asked: dict[str, Any] = {}

    class Ray:
        def remote(self, *_: object) -> Ray:
            return self

        def options(self, **options: Any) -> Ray:
            asked.update(options)
            return self

    engine = object.__new__(RayEngine)
    engine.ray = Ray()
    engine.start(resolve(replace(toy(devices=2), accelerator=accelerator)))
    assert (asked["num_cpus"], asked["num_gpus"]) == (2, gpus)


def test_a_machine_dies_and_its_run_is_finished_on_the_other(
    cluster: Any, toy: Callable[..., RunRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"epochs": 53, "sleep": 0.02}
    requests = [toy(seed=seed, **settings) for seed in (0, 1)]
    lost: list[int] = []

    def tick(self: PlainView) -> None:
        reached = [read_progress(resolve(request).folder / PROGRESS_FILE) for request in requests]
        # Each machine has one CPU: two runs under way are one on each.
        if not lost and all(progress is not None and progress.epochs_done > 3 for progress in reached):
            lost.append(1)
            cluster.remove_node(cluster.second, allow_graceful=False)

    monkeypatch.setattr(PlainView, "tick", tick)
    records = run_many(requests, engine="ray")
    assert lost, "no machine was lost"
    for record, seed in zip(records, (0, 1), strict=True):
        alone = run_one(toy(seed=seed, out=tmp_path / "alone", **settings))
        assert json.dumps(record.metrics) == json.dumps(alone.metrics)


def test_without_ray_the_message_says_what_to_install(
    toy: Callable[..., RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"the ray engine needs Ray: pip install mooring\[scale\]"):
        run_many([toy()], engine="ray")
    assert not os.path.exists(resolve(toy()).record_path)
