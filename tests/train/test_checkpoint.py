from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from mooring.train.checkpoint import Checkpoint, CheckpointStore
from mooring.train.record import RecordError

CONFIG = {"epochs": 5, "scales": [1, 2]}


def checkpoint(epochs_done: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(epochs_done)
    weights = {
        "layer.weight": torch.randn(3, 5, generator=generator),
        "half": torch.randn(7, generator=generator).bfloat16(),
        "count": torch.tensor(epochs_done),
        "empty": torch.empty(0, 2),
    }
    history = [{"epoch": epoch, "mse": math.nan, "gain": math.inf} for epoch in range(epochs_done)]
    return Checkpoint(epochs_done, weights, weights, {"0.step": torch.tensor(2.0)}, history, 0, 1.5)


def complain(text: str) -> None:
    pytest.fail(f"reported: {text}")


def test_round_trip(tmp_path: Path) -> None:
    store, saved = CheckpointStore(tmp_path, CONFIG), checkpoint(2)
    store.save(saved)
    loaded = store.load(complain)
    assert loaded is not None
    for group in ("weights", "best_weights", "optimizer"):
        assert getattr(loaded, group).keys() == getattr(saved, group).keys()
        for name, tensor in getattr(saved, group).items():
            assert torch.equal(getattr(loaded, group)[name], tensor)
            assert getattr(loaded, group)[name].dtype == tensor.dtype
    assert repr(loaded.history) == repr(saved.history)
    assert (loaded.epochs_done, loaded.selected_epoch, loaded.wall_seconds, loaded.done) == (2, 0, 1.5, False)


def test_nothing_saved_gives_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path, CONFIG).load(complain) is None


def test_two_generations_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, CONFIG)
    for epoch in (1, 2, 5):
        store.save(checkpoint(epoch))
    assert [path.name for path in store.paths()] == ["epoch-000005.safetensors", "epoch-000002.safetensors"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit])
def test_a_corrupt_file_is_reported_and_the_one_before_it_used(tmp_path: Path, damage: object) -> None:
    store, reports = CheckpointStore(tmp_path, CONFIG), []
    store.save(checkpoint(2))
    newest = store.save(checkpoint(3))
    damage(newest)  # type: ignore[operator]
    loaded = store.load(reports.append)
    assert loaded is not None
    assert loaded.epochs_done == 2
    (report,) = reports
    assert str(newest) in report
    assert "corrupt checkpoint (" in report
    assert report.endswith("Using the one before it, epoch-000002.safetensors.")
    assert [path.name for path in store.paths()] == ["epoch-000002.safetensors"]
    assert newest.with_name(newest.name + ".corrupt").exists()


def test_with_all_corrupt_the_run_starts_anew(tmp_path: Path) -> None:
    store, reports = CheckpointStore(tmp_path, CONFIG), []
    for epoch in (2, 3):
        truncate(store.save(checkpoint(epoch)))
    assert store.load(reports.append) is None
    assert len(reports) == 2
    assert reports[1].endswith("Using a new start from epoch 0.")


def test_another_config_is_refused(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, CONFIG).save(checkpoint(2))
    with pytest.raises(RecordError, match=r"made with epochs=5, but this run asks for epochs=7.*--out.*delete"):
        CheckpointStore(tmp_path, {**CONFIG, "epochs": 7}).load(complain)
