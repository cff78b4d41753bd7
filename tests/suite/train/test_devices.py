from __future__ import annotations

from collections.abc import Callable

import pytest
from toy_experiment import run_with_every_checkpoint

from mooring.suite.records import RunRecord
from mooring.suite.train import RunRequest, resolve


def test_two_devices_average_over_their_own_batches(toy: Callable[..., RunRequest]) -> None:
    # One step from the same weights: the mean loss is that over the batches of both ranks, steps 0 and 1.
    both = toy(devices=2, epochs=2, steps_per_epoch=1, dropout=0.0)
    run_with_every_checkpoint(both.to_json())
    one = toy(out=both.out / "one", epochs=1, steps_per_epoch=1, dropout=0.0, merge=2)
    run_with_every_checkpoint(one.to_json())
    row = RunRecord.read(resolve(both).record_path).metrics["epochs"][0]
    merged = RunRecord.read(resolve(one).record_path).metrics["epochs"][0]
    assert row["train/loss"] == pytest.approx(merged["train/loss"], rel=1e-6)
    # The gradients were averaged too: the weights after the step agree.
    assert row["mse"] == pytest.approx(merged["mse"], rel=1e-5)
    assert len(RunRecord.read(resolve(both).record_path).metrics["epochs"]) == 2
