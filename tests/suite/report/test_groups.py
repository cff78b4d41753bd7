"""Seeds are gathered, configurations are kept apart and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.records import DEFAULTS_FOR_OLD_RECORDS, Record, RecordError, load
from mooring.suite.report.groups import group, rank, usual_groups
from mooring.suite.train import get_experiment
from mooring.suite.train.config import defaults, leaves

RESULTS = Path(__file__).parents[3] / "results"
USUAL = {"learning_rate": 1e-4, "slots": 12}


def test_a_changed_setting_becomes_a_row_of_its_own(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    for seed in range(3):
        save(make_run("vn", seed, 0.1, 0.2, 0.02, config=USUAL), f"vn{seed}.json")
        save(make_run("anchored", seed, 1.0, 1.0, 1.0, config=USUAL), f"anchored{seed}.json")
    save(make_run("vn", 0, 0.3, 0.2, 0.02, config=USUAL | {"learning_rate": 1e-3}), "fast.json")
    records = load([tmp_path / "records"])
    groups = group(records.runs("two-radius"))
    assert [(item.title, item.seeds) for item in groups] == [
        ("VN", (0, 1, 2)),
        ("VN (learning rate 0.001)", (0,)),
        ("Anchored Cross-Attn VN", (0, 1, 2)),
    ]
    assert groups[0].estimate("metrics", "best", "label").mean == pytest.approx(0.1)
    assert [item.variant for item in usual_groups(records, "two-radius", "paper")] == ["", ""]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_change_from_the_preset_is_named_although_most_runs_have_it(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path, recorded: bool
) -> None:
    for seed in range(3):
        made = make_run("vn", seed, 0.1, 0.2, 0.02, config=USUAL | {"learning_rate": 1e-3})
        # New records say what was changed; older ones are in a folder that is named after it.
        folder = "a" if recorded else "paper,learning_rate=0.001"
        save(made | ({"changed": {"learning_rate": 1e-4}} if recorded else {}), f"{folder}/vn-seed{seed}.json")
    runs = load([tmp_path / "records"]).runs("two-radius")
    assert [item.title for item in group(runs)] == ["VN (learning rate 0.001)"]
    save(make_run("vn", 0, 0.1, 0.2, 0.02, config=USUAL), "paper/vn-seed0.json")
    runs = load([tmp_path / "records"]).runs("two-radius")
    assert [(item.title, len(item.runs)) for item in group(runs)] == [("VN", 1), ("VN (learning rate 0.001)", 3)]


def test_a_config_is_gone_through_as_often_whatever_its_size(
    make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    read = Record.mapping

    def mapping(self: Record, *keys: str) -> Any:
        passes.append(keys[0])
        return read(self, *keys)

    monkeypatch.setattr(Record, "mapping", mapping)
    counts = []
    for size in (3, 300):
        config = {f"option_{number}": number for number in range(size)}
        runs = [
            Record(Path(f"{seed}.json"), "run", make_run("vn", seed, 0.1, 0.2, 0.02, config=config)) for seed in (0, 1)
        ]
        passes.clear()
        group(runs)
        counts.append(len(passes))
    assert counts[0] == counts[1]


def test_settings_on_an_axis_are_not_named(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    for slots in (2, 3, 5):
        save(make_run("vn", 0, 0.1, 0.2, 0.02, config=USUAL | {"slots": slots}), f"{slots}.json")
    runs = load([tmp_path / "records"]).runs("two-radius")
    assert [item.variant for item in group(runs, apart=("slots",))] == ["", "", ""]
    assert sorted(item.variant for item in group(runs)) != ["", "", ""]


def test_a_run_carries_its_models_title_and_place(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    for place, model in enumerate(("vn", "mine", "anchored")):
        save(make_run(model, 0, 0.1, 0.2, 0.02, title=model.upper(), order=5 - place), f"{model}.json")
    groups = group(load([tmp_path / "records"]).runs("two-radius"))
    assert [(item.title, item.short) for item in groups] == [
        ("ANCHORED", "ANCHORED"),
        ("MINE", "MINE"),
        ("VN", "VN"),
    ]
    # Places of two kinds cannot be compared: with one run that carries none, the order is the paper's.
    save(make_run("mpnn", 0, 0.1, 0.2, 0.02), "mpnn.json")
    groups = group(load([tmp_path / "records"]).runs("two-radius"))
    assert [item.title for item in groups] == ["MPNN", "VN", "ANCHORED", "MINE"]


def test_order_is_the_papers() -> None:
    models = ["anchored", "my-own", "gcn+anchored", "vn", "gcn", "mpnn", "gcn+vn-sum", "cross-attn"]
    assert sorted(models, key=rank) == [
        "mpnn", "gcn", "vn", "gcn+vn-sum", "cross-attn", "anchored", "gcn+anchored", "my-own",
    ]  # fmt: skip


def test_a_record_from_before_an_option_existed_has_its_usual_value(
    save: Callable[..., Path], make_run: Callable[..., dict[str, Any]]
) -> None:
    for seed, config in enumerate([{"rate": 1}, {"rate": 1, "dropout": 0.0}, {"rate": 1, "dropout": 0.5}]):
        path = save(make_run("vn", seed, 1, 1, 1, config=config), f"vn-{seed}.json")
    save(make_run("mpnn", 0, 1, 1, 1, config={"rate": 1, "dropout": 0.0}), "mpnn.json")
    found = {(item.model, item.variant): item.seeds for item in group(load([path.parent]).runs("two-radius", "paper"))}
    assert found == {("mpnn", ""): (0,), ("vn", ""): (0, 1), ("vn", "dropout 0.5"): (2,)}


def test_an_option_that_only_newer_records_have_does_not_join_them_with_the_older(
    save: Callable[..., Path], make_run: Callable[..., dict[str, Any]]
) -> None:
    # All records that have the option have it at a value that is not its default.
    for seed, config in enumerate([{"rate": 1}, {"rate": 1}, {"rate": 1, "update_norm": "batch"}]):
        path = save(make_run("vn", seed, 1, 1, 1, config=config), f"vn-{seed}.json")
    found = {item.variant: item.seeds for item in group(load([path.parent]).runs("two-radius", "paper"))}
    assert found == {"": (0, 1), "update norm batch": (2,)}


def test_runs_of_several_devices_are_a_row_of_their_own(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    for seed, devices in ((0, 1), (1, 1), (0, 4)):
        save(make_run("vn", seed, 0.1, 0.2, 0.02, config=USUAL) | {"devices": devices}, f"{seed}-{devices}.json")
    groups = group(load([tmp_path / "records"]).runs("two-radius"))
    assert [(item.title, item.seeds) for item in groups] == [("VN", (0, 1)), ("VN (devices 4)", (0,))]


def test_a_seed_is_not_counted_twice(save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path) -> None:
    """One of the two lacks an option that is no default of older records, so they are not known to be one run."""
    save(make_run("vn", 0, 0.1, 0.2, 0.02, config=USUAL | {"waves": 3}), "one.json")
    save(make_run("vn", 0, 0.1, 0.2, 0.02, config=USUAL), "two.json")
    with pytest.raises(RecordError, match=r"two\.json: seed 0 of 'vn' is in .*one\.json too\. Delete one"):
        group(load([tmp_path / "records"]).runs("two-radius"))


def test_a_switch_is_named_without_its_value(
    save: Callable[..., Path], make_run: Callable[..., dict[str, Any]]
) -> None:
    for seed, config in enumerate([{"carry": True, "told": False}] * 2 + [{"carry": False, "told": True}]):
        path = save(make_run("vn", seed, 1, 1, 1, config=config), f"vn-{seed}.json")
    assert {item.variant for item in group(load([path.parent]).runs("two-radius"))} == {"", "no carry, told"}


def test_what_older_records_were_made_with_is_the_default_of_every_config() -> None:
    # Two options of one task each, all of whose records agree.
    alike = {"mass", "temperature"}
    trained = load([RESULTS]).kind("run")
    assert len(trained) > 500
    for run in trained:
        preset = get_experiment(run.task).presets[run.preset]
        for name in leaves(type(preset)).keys() - run.mapping("config").keys() - alike:
            assert DEFAULTS_FOR_OLD_RECORDS[name] == defaults(type(preset))[name], (run.path, name)
