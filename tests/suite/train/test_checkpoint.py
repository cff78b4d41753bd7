from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from mooring.suite.records import Identity, RecordError
from mooring.suite.train.checkpoint import (
    Checkpoint,
    CheckpointStore,
    _digest,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
)

IDENTITY = Identity("toy", "linear", 0, {"epochs": 5, "scales": [1, 2]}, "d" * 64, {"toy.py": "c" * 64})


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


def test_ranks_that_resume_from_the_same_tensors_take_their_own_steps() -> None:
    def optimizer() -> torch.optim.Optimizer:
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        return torch.optim.AdamW([parameter], fused=True)

    first = optimizer()
    first.step()
    handed = optimizer_tensors(first)
    for _ in range(2):  # two ranks, which see the same memory
        rank = optimizer()
        restore_optimizer(rank, handed)
        rank.step()
        assert float(optimizer_tensors(rank)["0.step"]) == 2


def test_round_trip(tmp_path: Path) -> None:
    store, saved = CheckpointStore(tmp_path, IDENTITY), checkpoint(2)
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


def test_the_curves_are_written_too(tmp_path: Path) -> None:
    saved = checkpoint(2)
    saved.history[1]["late"] = 3.0
    CheckpointStore(tmp_path, IDENTITY).save(saved)
    rows = (tmp_path / "history.csv").read_text().split()
    assert rows == ["epoch,mse,gain,late", "0,nan,inf,", "1,nan,inf,3.0"]


def test_nothing_saved_gives_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path, IDENTITY).load(complain) is None


def test_two_generations_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, IDENTITY)
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


def rename_a_tensor(path: Path) -> None:
    """Give the first parameter's steps to the second, in the same place of the file."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    tensors["optimizer/1.step"] = tensors.pop("optimizer/0.step")
    path.write_bytes(save(tensors, metadata=metadata))


@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit, rename_a_tensor])
def test_a_corrupt_file_is_reported_and_the_one_before_it_used(tmp_path: Path, damage: object) -> None:
    store, reports = CheckpointStore(tmp_path, IDENTITY), []
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
    store, reports = CheckpointStore(tmp_path, IDENTITY), []
    for epoch in (2, 3):
        truncate(store.save(checkpoint(epoch)))
    assert store.load(reports.append) is None
    assert len(reports) == 2
    assert reports[1].endswith("Using a new start from epoch 0.")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"task": "census"}, "task='toy', but this run asks for task='census'"),
        ({"model": "cubic"}, "model='linear', but this run asks for model='cubic'"),
        ({"seed": 1}, "seed=0, but this run asks for seed=1"),
        ({"config": {**IDENTITY.config, "epochs": 7}}, "epochs=5, but this run asks for epochs=7"),
        ({"data": "e" * 64}, "data of hash dddddddddddddddd…, but this run reads data of hash eeeeeeeeeeeeeeee…"),
        ({"code": {"toy.py": "f" * 64}}, "toy.py of hash cccccccccccccccc…, but now its hash is ffffffffffffffff…"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = CheckpointStore(tmp_path, IDENTITY).save(checkpoint(2))
    with pytest.raises(RecordError) as caught:
        CheckpointStore(tmp_path, replace(IDENTITY, **change)).load(complain)
    assert str(caught.value) == f"{path}: made with {says}. Use another --out, or delete {tmp_path} to start over."


def test_a_checkpoint_that_names_no_run_is_read_but_not_resumed_from(tmp_path: Path) -> None:
    def older(facts: dict[str, Any], _: dict[str, torch.Tensor]) -> None:
        facts["config"] = facts.pop("identity")["config"]

    path = CheckpointStore(tmp_path, IDENTITY).save(checkpoint(2))
    with_facts(path, older)
    content = read_checkpoint(path)
    assert not isinstance(content, str)
    assert content[1] == {"config": IDENTITY.config}
    with pytest.raises(RecordError, match="names no task, as it was written by an older version"):
        CheckpointStore(tmp_path, IDENTITY).load(complain)


def with_facts(path: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]) -> None:
    """Write the file again with changed facts or tensors and the checksum that belongs to them."""
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["mooring"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    changed = change(facts, tensors)
    text = changed if isinstance(changed, str) else json.dumps(facts if changed is None else changed)
    path.write_bytes(save(tensors, metadata={"mooring": text, "sha256": _digest(tensors, text)}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda facts, _: facts.update(extra=1), "extra"),
        (lambda facts, _: facts.pop("identity") and None, "config"),
        (lambda facts, _: [], "its header"),
        (lambda facts, _: "{", "Expecting property name"),
        (lambda _, tensors: tensors.update({"extra/x": torch.zeros(2)}), "extra"),
    ],
)
def test_a_header_of_another_version_is_set_aside_whatever_the_checksum(
    tmp_path: Path, change: Callable[[Any, Any], Any], reason: str
) -> None:
    store, reports = CheckpointStore(tmp_path, IDENTITY), []
    store.save(checkpoint(2))
    newest = store.save(checkpoint(3))
    with_facts(newest, change)
    loaded = store.load(reports.append)
    assert loaded is not None
    assert loaded.epochs_done == 2
    (report,) = reports
    assert reason in report
    assert newest.with_name(newest.name + ".corrupt").exists()


def test_a_file_written_again_as_it_was_is_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, IDENTITY)
    with_facts(store.save(checkpoint(3)), lambda facts, tensors: None)
    loaded = store.load(complain)
    assert loaded is not None
    assert loaded.epochs_done == 3
