from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from toy_experiment import run_with_every_checkpoint

from mooring.suite.records import RunRecord
from mooring.suite.train import Monitor, RunRequest, resolve, run_one
from mooring.suite.train.checkpoint import Checkpoint, CheckpointStore
from mooring.suite.train.fit import TrainingModule

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NAME": "sweep",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NODELIST": "node[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
}
TORCHRUN = {"GROUP_RANK": "1", "LOCAL_RANK": "1", "NODE_RANK": "1", "RANK": "3", "WORLD_SIZE": "4"}
# Port 1 is nobody's to open.
ADDRESS = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variables of a job of Slurm, of torchrun and of an address that is not ours."""
    for name, value in {**SLURM, **TORCHRUN, **ADDRESS}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("scheduler")
def test_two_devices_average_over_their_own_batches_inside_a_job_of_a_scheduler_too(
    toy: Callable[..., RunRequest],
) -> None:
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


@pytest.mark.usefixtures("scheduler")
def test_one_device_trains_inside_a_job_of_a_scheduler(toy: Callable[..., RunRequest]) -> None:
    assert len(run_one(toy(epochs=1)).metrics["epochs"]) == 1


def test_every_rank_and_every_epoch_draws_numbers_of_its_own(
    toy: Callable[..., RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = resolve(toy())
    store = CheckpointStore(run.folder, run.identity)

    def draw(epoch: int) -> torch.Tensor:
        module = TrainingModule(run.experiment, run.experiment.build(), Checkpoint(epoch), store, Monitor())
        module.on_train_epoch_start()
        return torch.rand(7)

    drawn = {}
    for rank in (0, 1, 2):
        monkeypatch.setattr(TrainingModule, "global_rank", rank)
        for epoch in (0, 1, 2):
            drawn[rank, epoch] = draw(epoch)
    assert len({tuple(numbers.tolist()) for numbers in drawn.values()}) == len(drawn)
    # The control: the same rank and epoch draw the same again, or a run could not be resumed.
    assert torch.equal(draw(2), drawn[2, 2])
