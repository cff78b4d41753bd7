from __future__ import annotations

import dataclasses
import errno
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_experiment import Toy, ToyConfig, ToyNet

from mooring.suite.files import hold
from mooring.suite.records import RecordError, RunRecord, commit_problem, read
from mooring.suite.train import ConfigError, Monitor, Progress, RunRequest, resolve, run_one
from mooring.suite.train import fit as fitting
from mooring.suite.train import run as running
from mooring.suite.train.checkpoint import CheckpointStore
from mooring.suite.train.fit import NonFiniteLoss

Maker = Callable[..., RunRequest]


def comparable(record: RunRecord) -> dict[str, Any]:
    """The record as text by field, so that nan equals itself, without what may differ between equal runs."""
    content = json.loads(record.to_text())
    return {name: json.dumps(content[name]) for name in content if name not in ("wall_seconds", "git_commit")}


class InterruptAfter(Monitor):
    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch(self, progress: Progress) -> None:
        if progress.epochs_done == self.epochs:
            raise InterruptedError


@pytest.fixture
def every_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)


def test_a_request_travels_as_text() -> None:
    request = RunRequest("motifs", "vn", 3, "tiny", {"epochs": "2"}, Path("out"), 2)
    assert RunRequest.from_json(request.to_json()) == request


def test_a_request_names_what_it_changes_in_the_preset() -> None:
    request = RunRequest("two-radius", "vn", 3, "paper", {"epochs": "3", "slots": 5})
    assert str(request) == "two-radius paper, epochs=3, slots=5 vn seed 3"
    assert str(RunRequest("two-radius", "vn", 3, "paper")) == "two-radius paper vn seed 3"


def test_record_holds_the_whole_story(toy: Maker) -> None:
    record = run_one(toy(seed=2, epochs=4))
    rows = record.metrics["epochs"]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [row["learning_rate"] for row in rows] == [0.05 / (1 + epoch) for epoch in range(4)]
    assert record.selected_epoch == min(range(4), key=lambda epoch: rows[epoch]["mse"])
    assert record.metrics["best"]["mse"] == rows[record.selected_epoch]["mse"]
    assert rows[0]["train/loss"] > rows[0]["train/rmse"] > 0
    assert record.metrics["final"].keys() == {"test/mse"}
    assert record.diagnostics == {"limit": [math.inf, 1.0]}
    assert record.parameters == {"total": 9, "memory": 2}
    assert record.config["epochs"] == 4
    assert record.changed == {"epochs": 5}
    assert record.versions["torch"] == torch.__version__
    assert comparable(record) == comparable(RunRecord.read(resolve(toy(seed=2, epochs=4)).record_path))


def test_same_seed_same_record_other_seed_other_record(toy: Maker, tmp_path: Path) -> None:
    first = run_one(toy(seed=1, out=tmp_path / "a"))
    torch.manual_seed(17)  # The caller's random state must not matter.
    assert comparable(run_one(toy(seed=1, out=tmp_path / "b"))) == comparable(first)
    assert run_one(toy(seed=2, out=tmp_path / "c")).metrics["final"] != first.metrics["final"]


def test_the_callers_random_state_and_threads_are_left_alone(toy: Maker) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    run_one(toy())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_selected_weights_are_those_of_the_best_epoch(toy: Maker) -> None:
    request = toy(seed=3, epochs=6)
    record = run_one(request)
    assert record.selected_epoch < 5, "the test needs an epoch after the best one"
    run, net = resolve(request), ToyNet()
    state = CheckpointStore(run.folder, run.identity).load(pytest.fail)
    assert state is not None
    net.load_state_dict(state.best_weights)
    with torch.no_grad():
        assert run.experiment.finish(net.eval())[0] == record.metrics["final"]
        net.load_state_dict(state.weights)
        assert run.experiment.finish(net)[0] != record.metrics["final"]


def test_memory_learns_at_its_own_rate(toy: Maker) -> None:
    groups = resolve(toy(memory_lr_scale=0.1)).experiment.parameter_groups(ToyNet())
    assert [(len(group["params"]), group["lr"]) for group in groups] == [(1, 0.05), (2, pytest.approx(0.005))]


def test_early_stop(toy: Maker) -> None:
    full = run_one(toy(epochs=6))
    threshold = sorted(row["mse"] for row in full.metrics["epochs"])[2]
    record = run_one(toy(epochs=6, stop_below=threshold, out=toy().out / "stopped"))
    rows = record.metrics["epochs"]
    assert len(rows) < 6
    assert rows[-1]["mse"] < threshold
    assert all(row["mse"] >= threshold for row in rows[:-1])


def test_a_finished_run_is_not_run_again(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_one(toy())
    monkeypatch.setattr(Toy, "build", lambda self: pytest.fail("built again"))
    assert comparable(run_one(toy())) == comparable(first)
    with pytest.raises(RecordError, match="made with devices=1, but this run asks for devices=2"):
        run_one(toy(devices=2))


def test_a_changed_preset_has_a_folder_of_its_own(toy: Maker) -> None:
    plain, changed, same = (resolve(request) for request in (toy(), toy(epochs="7"), toy(epochs=5)))
    assert plain.record_path.parent.name == "quick"
    assert changed.record_path.parent.name == "quick,epochs=7"
    assert changed.record_path == resolve(toy(epochs=7)).record_path
    assert same.record_path == plain.record_path


def test_a_record_of_another_config_is_refused(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    run_one(toy())
    monkeypatch.setitem(Toy.presets, "quick", dataclasses.replace(Toy.presets["quick"], epochs=7))
    with pytest.raises(RecordError, match=r"made with epochs=5, but this run asks for epochs=7\. Use another --out"):
        run_one(toy())


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("task", "motifs", "task='motifs', but this run asks for task='toy'"),
        ("model", "cubic", "model='cubic', but this run asks for model='linear'"),
        ("seed", 7, "seed=7, but this run asks for seed=0"),
        ("data", "d" * 64, "data of hash dddddddddddddddd…, but this run reads data of hash none"),
        ("code", {"toy_experiment.py": "c" * 64}, "toy_experiment.py of hash cccccccccccccccc…, but now its hash is"),
    ],
)
def test_a_record_of_another_run_is_refused(toy: Maker, name: str, value: Any, says: str) -> None:
    record, path = run_one(toy(epochs=1)), resolve(toy(epochs=1)).record_path
    dataclasses.replace(record, **{name: value}).write(path)
    with pytest.raises(RecordError) as caught:
        run_one(toy(epochs=1))
    assert f"{path}: made with {says}" in str(caught.value)
    assert str(caught.value).endswith(f"Use another --out, or delete {path} and {path.with_suffix('')} to start over.")


def test_a_record_from_before_there_were_hashes_is_read(toy: Maker) -> None:
    run_one(toy(epochs=1))
    path = resolve(toy(epochs=1)).record_path
    content = json.loads(path.read_text())
    assert content["data"] == ""
    assert content["code"].keys() == {"toy_experiment.py"}
    del content["data"], content["code"]
    path.write_text(json.dumps(content))
    assert run_one(toy(epochs=1)).code is None


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize("done", [False, True])
def test_a_copied_folder_is_not_the_run_of_another_seed(toy: Maker, done: bool) -> None:
    if done:
        run_one(toy())
    else:
        with pytest.raises(InterruptedError):
            run_one(toy(), InterruptAfter(3))
    other = resolve(toy(seed=1)).folder
    shutil.copytree(resolve(toy()).folder, other)
    with pytest.raises(RecordError) as caught:
        run_one(toy(seed=1))
    assert "made with seed=0, but this run asks for seed=1. Use another --out, or delete" in str(caught.value)
    assert str(other) in str(caught.value)
    assert not resolve(toy(seed=1)).record_path.exists()


OWN = """
from {module}_parts import SCALE

from toy_experiment import Toy

class Mine(Toy):
    name = "mine"

    def batch(self, *key):
        x, y = super().batch(*key)
        return x, SCALE * y
"""


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize("edited", ["", "_parts"])
def test_edited_user_code_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str) -> None:
    module = f"mine{edited}_task"
    (tmp_path / f"{module}.py").write_text(OWN.format(module=module))
    (tmp_path / f"{module}_parts.py").write_text("SCALE = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    whole, half = (
        RunRequest(f"{module}:Mine", "linear", 0, "quick", {}, tmp_path / name) for name in ("whole", "half")
    )
    record = run_one(whole)
    with pytest.raises(InterruptedError):
        run_one(half, InterruptAfter(2))
    assert comparable(run_one(whole)) == comparable(record)
    file = tmp_path / f"{module}{edited}.py"
    file.write_text(file.read_text() + "\n# edited\n")
    says = rf"made with {file.name} of hash \w{{16}}…, but now its hash is \w{{16}}…\. Use another --out"
    for request in (whole, half):
        with pytest.raises(RecordError, match=says):
            run_one(request)


@dataclasses.dataclass(frozen=True)
class LaterConfig(ToyConfig):
    """The toy's config with an option that it got after its first runs."""

    tilt: float = 0.0


@pytest.mark.usefixtures("every_checkpoint")
def test_an_option_added_later_orphans_neither_records_nor_checkpoints(
    toy: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run_one(toy())
    with pytest.raises(InterruptedError):
        run_one(toy(out=tmp_path / "half"), InterruptAfter(3))
    monkeypatch.setattr(Toy, "presets", {"quick": LaterConfig(**record.config)})
    assert comparable(run_one(toy())) == comparable(record)
    assert run_one(toy(out=tmp_path / "half")).metrics["final"] == record.metrics["final"]
    # The control: what was made before was not made with another value.
    monkeypatch.setattr(Toy, "presets", {"quick": LaterConfig(**record.config, tilt=0.5)})
    with pytest.raises(RecordError, match=r"made with tilt=0\.0, but this run asks for tilt=0\.5"):
        run_one(toy())


@pytest.mark.usefixtures("every_checkpoint")
def test_nan_aborts_and_keeps_the_last_good_checkpoint(toy: Maker) -> None:
    request = toy(seed=3, nan_at=2)
    with pytest.raises(NonFiniteLoss) as caught:
        run_one(request)
    assert str(caught.value) == (
        "toy: linear, seed 3: the loss is nan at epoch 2, step 0 of 3. The last good checkpoint is kept. Lower "
        "learning_rate (0.05) or clip_norm (5.0) and run again with another --out."
    )
    run = resolve(request)
    assert not run.record_path.exists()
    state = CheckpointStore(run.folder, run.identity).load(pytest.fail)
    assert state is not None
    assert state.epochs_done == 2
    assert all(tensor.isfinite().all() for tensor in state.weights.values())


def test_a_gradient_that_is_not_finite_aborts_too(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(self: Toy, net: torch.nn.Module, batch: Any, epoch: int) -> tuple[torch.Tensor, dict[str, Any]]:
        return (net(batch[0]).sum() * 0.0).sqrt(), {}  # Value 0, derivative 0 * inf.

    monkeypatch.setattr(Toy, "loss", loss)
    with pytest.raises(NonFiniteLoss, match="the gradient norm is nan at epoch 0, step 0 of 3"):
        run_one(toy(clip_norm=None))


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize("epochs", [1, 3])
def test_resume_repeats_the_uninterrupted_run(toy: Maker, tmp_path: Path, epochs: int) -> None:
    reference = run_one(toy(out=tmp_path / "whole"))
    with pytest.raises(InterruptedError):
        run_one(toy(), InterruptAfter(epochs))
    assert comparable(run_one(toy())) == comparable(reference)


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize("forgotten", ["restore_optimizer", "seed_torch"])
def test_resume_needs_all_of_the_state(
    toy: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    reference = run_one(toy(out=tmp_path / "whole"))
    with pytest.raises(InterruptedError):
        run_one(toy(), InterruptAfter(2))
    monkeypatch.setattr(fitting, forgotten, lambda *arguments: None)
    assert comparable(run_one(toy()))["metrics"] != comparable(reference)["metrics"]


@pytest.mark.usefixtures("every_checkpoint")
def test_resume_after_a_truncated_checkpoint(toy: Maker, tmp_path: Path) -> None:
    reference = run_one(toy(out=tmp_path / "whole"))
    request = toy()
    run_one(request)
    resolve(request).record_path.unlink()
    newest = max(resolve(request).folder.glob("epoch-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.warns(UserWarning, match=r"epoch-000005\.safetensors: corrupt checkpoint"):
        record = run_one(request)
    assert comparable(record) == comparable(reference)


@pytest.mark.usefixtures("every_checkpoint")
def test_wall_seconds_add_up_over_resumes(toy: Maker) -> None:
    request = toy(epochs=3, sleep=0.02)
    run_one(request)
    resolve(request).record_path.unlink()
    max(resolve(request).folder.glob("epoch-*.safetensors")).unlink()
    # Three epochs of three steps: two from the checkpoint, one run anew.
    assert run_one(request).wall_seconds >= 9 * 0.02


COMMIT, LATER = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"


def test_the_record_names_the_commit_that_trained_it(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "git_commit", lambda: f"{COMMIT}-dirty")
    evaluate = Toy.evaluate

    def commit(self: Toy, net: Any, epoch: int) -> dict[str, float]:
        monkeypatch.setattr(running, "git_commit", lambda: COMMIT)
        return evaluate(self, net, epoch)

    monkeypatch.setattr(Toy, "evaluate", commit)
    assert run_one(toy()).git_commit == f"{COMMIT}-dirty"
    # The weights are still those of the change that was never committed.
    resolve(toy()).record_path.unlink()
    assert run_one(toy()).git_commit == f"{COMMIT}-dirty, then {COMMIT}"


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize(
    ("commits", "named"),
    [
        ([COMMIT, COMMIT], COMMIT),
        ([COMMIT, LATER], f"{COMMIT}, then {LATER}"),
        ([COMMIT, LATER, COMMIT], f"{COMMIT}, then others, then {COMMIT}"),
    ],
)
def test_a_run_resumed_with_other_code_names_more_than_one_commit(
    toy: Maker, monkeypatch: pytest.MonkeyPatch, commits: list[str], named: str
) -> None:
    for epochs, commit in enumerate(commits, start=1):
        monkeypatch.setattr(running, "git_commit", lambda commit=commit: commit)
        if epochs < len(commits):
            with pytest.raises(InterruptedError):
                run_one(toy(), InterruptAfter(epochs))
    assert run_one(toy()).git_commit == named
    assert commit_problem(read(resolve(toy()).record_path)) == ("" if named == COMMIT else f"its commit is '{named}'.")


def test_a_checkpoint_that_names_no_commit_is_resumed_but_not_published(
    toy: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_one(toy())
    run = resolve(toy())
    run.record_path.unlink()
    store = CheckpointStore(run.folder, run.identity)
    state = store.load(pytest.fail)
    assert state is not None
    del vars(state)["git_commit"]
    store.save(state)
    monkeypatch.setattr(running, "git_commit", lambda: COMMIT)
    assert run_one(toy()).git_commit == f"unknown, then {COMMIT}"


def test_a_checkpoint_of_other_code_is_refused(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    request = toy()
    run_one(request)
    resolve(request).record_path.unlink()
    monkeypatch.setattr(Toy, "build", lambda self: torch.nn.Linear(3, 2))
    with pytest.raises(RecordError, match=r"does not fit the network(?s:.*)delete the folder to start over"):
        run_one(request)


@pytest.mark.usefixtures("every_checkpoint")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("0.exp_avg", torch.zeros(1, 3), r"0\.exp_avg has shape \(1, 3\), expected \(1, 7\)"),
        ("1.exp_avg_sq", torch.zeros(10**7), r"1\.exp_avg_sq has shape \(10000000,\), expected \(1, 1\)"),
        ("2.step", torch.zeros(3), r"2\.step has shape \(3,\), expected \(\)"),
        ("2.exp_avg", torch.zeros(1, dtype=torch.long), r"2\.exp_avg is torch\.int64, expected real numbers"),
        ("3.exp_avg", torch.zeros(1), r"3\.exp_avg belongs to parameter 3, but there are 3"),
        ("1.exp_avg", None, "parameter 1 has exp_avg_sq, step, expected exp_avg, exp_avg_sq and step"),
        ("1.max_exp_avg_sq", torch.zeros(1, 1), "parameter 1 has exp_avg, exp_avg_sq, max_exp_avg_sq, step, expected"),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused_before_it_is_loaded(
    toy: Maker, monkeypatch: pytest.MonkeyPatch, name: str, value: torch.Tensor | None, says: str
) -> None:
    with pytest.raises(InterruptedError):
        run_one(toy(), InterruptAfter(2))
    run = resolve(toy())
    store = CheckpointStore(run.folder, run.identity)
    state = store.load(pytest.fail)
    assert state is not None
    state.optimizer = {**state.optimizer, name: value} if value is not None else drop(state.optimizer, name)
    store.save(state)
    # With such tensors a step of the optimizer would end the process.
    monkeypatch.setattr(fitting, "fit", lambda *_: pytest.fail("trained"))
    with pytest.raises(RecordError, match=rf"does not fit the network \({says}.*\)\. .* delete the folder"):
        run_one(toy())


def drop(tensors: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in tensors.items() if key != name}


def test_a_run_goes_on_where_the_file_system_has_no_locks(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.warns(UserWarning, match="linear-seed0: its file system has no locks"):
        assert run_one(toy(epochs=1)).seed == 0


def test_a_run_is_trained_by_one_process_at_a_time(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.train.run.LOCK_SECONDS", 0.05)
    request = toy()
    resolve(request).folder.mkdir(parents=True)
    with (
        hold(resolve(request).folder / running.LOCK),
        pytest.raises(RecordError, match="another process is training this run"),
    ):
        run_one(request)
    run_one(request)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "quack"}, "toy: unknown preset 'quack'; did you mean 'quick'?"),
        ({"model": "cubic"}, "toy: unknown model 'cubic'; the models are linear."),
        ({"overrides": {"epochs": "0"}}, "toy 'quick': epochs=0, expected 1 or more."),
        ({"overrides": {"global_lr": "1"}}, "toy 'quick': unknown field 'global_lr'; did you mean 'memory_lr_scale'?"),
        ({"devices": 0}, "toy 'quick': devices=0, expected 1 or more."),
        ({"accelerator": "tpu"}, "toy 'quick': unknown accelerator 'tpu'; expected cpu, cuda, mps or auto."),
        pytest.param(
            {"accelerator": "cuda"},
            "toy 'quick': accelerator='cuda', but torch finds none here. Use 'cpu' or 'auto'.",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here"),
        ),
    ],
)
def test_bad_requests_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fields = {"task": "toy_experiment:Toy", "model": "linear", "seed": 0, "preset": "quick", "out": tmp_path, **change}
    with pytest.raises(ValueError, match=r"^toy") as caught:
        run_one(RunRequest(**fields))
    assert str(caught.value) == message
    assert isinstance(caught.value, ConfigError) or "model" in change
    assert not list(tmp_path.iterdir())


def test_the_record_says_what_it_was_trained_on(toy: Callable[..., RunRequest]) -> None:
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    record = run_one(dataclasses.replace(toy(epochs=1), accelerator="auto"))
    assert record.accelerator == found


def test_a_run_on_another_accelerator_is_another_run(
    toy: Callable[..., RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_one(toy(epochs=1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RecordError, match="made with accelerator='cpu', but this run asks for accelerator='cuda'"):
        run_one(dataclasses.replace(toy(epochs=1), accelerator="cuda"))


def test_an_unknown_preset_is_named_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two-radius-leaderboard: unknown preset 'quick'; "):
        resolve(RunRequest("two-radius-leaderboard", "vn", 0, "quick", {"no_field": 1}, tmp_path))


def test_selection_needs_its_metric(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "select", ("accuracy", "max"))
    with pytest.raises(KeyError, match="selects by 'accuracy', which evaluate does not return"):
        run_one(toy())


def test_selection_has_one_of_two_directions(toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "select", ("mse", "maximum"))
    with pytest.raises(ConfigError, match=r"toy: select is \('mse', 'maximum'\), expected .* 'max' or 'min'"):
        resolve(toy())


@pytest.mark.parametrize("name", ["epoch", "train/loss", "learning_rate"])
def test_a_metric_has_a_name_of_its_own(name: str, toy: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "evaluate", lambda *_: {"mse": 1.0, name: 2.0})
    with pytest.raises(ValueError, match=f"toy: evaluate returns '{name}', .* Rename it"):
        run_one(toy())


def test_a_setting_is_no_path(toy: Maker, tmp_path: Path) -> None:
    path = resolve(toy(die_once="../../../escaped")).record_path
    assert path.is_relative_to(tmp_path)
    assert ".." not in path.relative_to(tmp_path).parts


@pytest.mark.parametrize(
    ("direction", "new", "old", "better"),
    [
        ("max", 2.0, 1.0, True),
        ("max", 1.0, 1.0, False),
        ("min", 2.0, 1.0, False),
        ("min", 1.0, 2.0, True),
        ("max", math.nan, 1.0, False),
        ("max", 1.0, math.nan, True),
        ("min", math.nan, math.nan, False),
    ],
)
def test_improves(
    toy: Maker, monkeypatch: pytest.MonkeyPatch, direction: str, new: float, old: float, better: bool
) -> None:
    monkeypatch.setattr(Toy, "select", ("mse", direction))
    assert fitting.improves(resolve(toy()).experiment, {"mse": new}, {"mse": old}) is better
    assert fitting.improves(resolve(toy()).experiment, {"mse": new}, None)
