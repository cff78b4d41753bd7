from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toy_experiment import run_with_every_checkpoint

from mooring.suite.train import RunRequest, resolve

KILLS = 10


def metrics_text(path: Path) -> dict[str, str]:
    content = json.loads(path.read_text())
    return {name: json.dumps(content[name]) for name in content if name not in ("wall_seconds", "git_commit")}


def newest(request: RunRequest) -> str:
    return max((path.name for path in resolve(request).folder.glob("epoch-*.safetensors")), default="")


def test_ten_kills_at_random_moments_change_nothing(toy: Callable[..., RunRequest], tmp_path: Path) -> None:
    # The fork server imports once, so that a process is killed while it trains rather than while it imports.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mooring.suite.train.fit"])
    settings: dict[str, Any] = {"epochs": 89, "sleep": 0.002}
    whole, killed = toy(out=tmp_path / "whole", **settings), toy(out=tmp_path / "killed", **settings)
    moments, exit_codes = random.Random(0), []

    def start(request: RunRequest) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=run_with_every_checkpoint, args=(request.to_json(),))
        process.start()
        return process

    start(whole).join()
    for _ in range(KILLS):
        before, process = newest(killed), start(killed)
        while newest(killed) == before and process.is_alive():
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, 0.06))
        process.kill()
        process.join()
        exit_codes.append(process.exitcode)
        assert not resolve(killed).record_path.exists(), "the run ended before its ten kills; give it more epochs"
    start(killed).join()

    assert exit_codes == [-9] * KILLS
    assert metrics_text(resolve(killed).record_path) == metrics_text(resolve(whole).record_path)
    assert not list(resolve(killed).folder.glob(".*.tmp"))
