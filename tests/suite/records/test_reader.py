"""What is read, what is skipped, and the words in which a bad file is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.records import RecordError, load, read

Save = Callable[[dict[str, Any], str], Path]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def make_run() -> Make:
    """The smallest run record, with the given accuracies as fractions."""

    def make(model: str, seed: int, label: Any, count: float, both: float, **changes: Any) -> dict[str, Any]:
        best = {"label": label, "count": count, "both": both}
        metrics = {"best": best, "final": {}, "epochs": [{"epoch": 0, **best}]}
        run = {"task": "two-radius", "model": model, "seed": seed, "preset": "paper", "config": {}, "metrics": metrics}
        return {"schema": 1, "kind": "run", **run, **changes}

    return make


AGAIN = "Write the record again with `mooring run two-radius --preset paper`."


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


def test_working_folders_are_skipped(save: Save, make_run: Make, tmp_path: Path) -> None:
    save(make_run("vn", 0, 0.1, 0.2, 0.02), "two-radius/paper/vn-seed0.json")
    save({"state": "no record"}, "two-radius/paper/vn-seed0/progress.json")
    save({"state": "no record"}, ".cache/thing.json")
    assert [record.path.name for record in load([tmp_path / "records"])] == ["vn-seed0.json"]


@pytest.mark.parametrize("name", ["progress.json", "lock", "epoch-000003.safetensors.corrupt"])
def test_the_folder_of_a_run_that_is_under_way_is_skipped(
    save: Save, make_run: Make, tmp_path: Path, name: str
) -> None:
    save(make_run("vn", 0, 0.1, 0.2, 0.02), "two-radius/paper/vn-seed0.json")
    save({"state": "no record"}, "two-radius/paper/vn-seed1/notes.json")
    save({"state": "no record"}, f"two-radius/paper/vn-seed1/{name}")
    assert [record.path.name for record in load([tmp_path / "records"])] == ["vn-seed0.json"]


@pytest.mark.parametrize("folder", ["five-seeds", "vn-seed0", "a-seed0-b"])
def test_a_folder_is_not_skipped_for_its_name(save: Save, make_run: Make, tmp_path: Path, folder: str) -> None:
    path = save(make_run("vn", 0, 0.1, 0.2, 0.02), f"{folder}/two-radius/paper/vn-seed0.json")
    assert [record.path for record in load([tmp_path / "records"])] == [path]


def test_a_stray_file_is_refused(save: Save, tmp_path: Path) -> None:
    path = save({"state": "no record"}, "two-radius/other.json")
    with pytest.raises(
        RecordError,
        match=exactly(f"{path}: field 'schema' is missing, so this is not a record. Move it out of the folder."),
    ):
        load([tmp_path / "records"])


def test_runs_come_in_a_fixed_order(save: Save, make_run: Make, tmp_path: Path) -> None:
    for seed in (10, 2, 0):
        save(make_run("vn", seed, 0.1, 0.2, 0.02), f"b{seed}.json")
    assert [record.seed for record in load([tmp_path / "records"])] == [0, 2, 10]


def test_missing_field_names_file_and_field(save: Save, make_run: Make) -> None:
    data = make_run("vn", 0, 0.1, 0.2, 0.02)
    del data["metrics"]["best"]["count"]
    path = save(data, "vn.json")
    message = f"{path}: field 'metrics.best.count' is missing. {AGAIN}"
    with pytest.raises(RecordError, match=exactly(message)):
        read(path).number("metrics", "best", "count")
    assert read(path).number("metrics", "best", "label") == 0.1


@pytest.mark.parametrize(("value", "got"), [("0.5", "str '0.5'"), (None, "NoneType None"), (True, "bool True")])
def test_wrong_type_is_named(save: Save, make_run: Make, value: Any, got: str) -> None:
    data = make_run("vn", 0, value, 0.2, 0.02)
    path = save(data, "vn.json")
    message = f"{path}: field 'metrics.best.label' is {got}, expected a number. {AGAIN}"
    with pytest.raises(RecordError, match=exactly(message)):
        read(path).number("metrics", "best", "label")


def test_not_a_number_is_no_number(save: Save, make_run: Make) -> None:
    path = save(make_run("vn", 0, float("nan"), 0.2, 0.02), "vn.json")
    # The same command would give the same, so that it is not what the message says to do.
    with pytest.raises(RecordError, match=r"field 'metrics.best.label' is nan.* diverged.* other settings") as caught:
        read(path).number("metrics", "best", "label")
    assert str(path) in str(caught.value)
    assert AGAIN not in str(caught.value)


def test_schema_and_kind_are_checked(save: Save, make_run: Make, tmp_path: Path) -> None:
    path = save(make_run("vn", 0, 0.1, 0.2, 0.02, schema=2), "a.json")
    with pytest.raises(
        RecordError, match=exactly(f"{path}: schema 2, but this version reads 1. Write the record again.")
    ):
        read(path)
    path = save(make_run("vn", 0, 0.1, 0.2, 0.02, kind="runs"), "b.json")
    with pytest.raises(RecordError, match=r"b\.json: kind 'runs', expected one of run, verify, audit, bench"):
        read(path)
    path.write_text('{"schema": 1, "ki', encoding="utf-8")
    with pytest.raises(
        RecordError, match=r"b\.json: not valid JSON \(.*\)\. Delete the file and run its command again\.$"
    ):
        read(path)
    missing = tmp_path / "nowhere"
    message = f"report: no file or folder '{missing}'. Give a folder of records, e.g. results/."
    with pytest.raises(RecordError, match=exactly(message)):
        load([missing])


def test_the_same_run_twice_is_refused_in_one_source(save: Save, make_run: Make, tmp_path: Path) -> None:
    first = save(make_run("vn", 0, 0.1, 0.2, 0.02), "a.json")
    second = save(make_run("vn", 0, 0.1, 0.2, 0.02), "b.json")
    message = f"{second}: the same run as {first}. Keep one of the two, or a mean would count it twice."
    with pytest.raises(RecordError, match=exactly(message)):
        load([tmp_path / "records"])


def test_a_record_from_before_an_option_existed_is_of_the_same_run(save: Save, make_run: Make, tmp_path: Path) -> None:
    first = save(make_run("vn", 0, 0.1, 0.2, 0.02, config={"slots": 2}), "one/a.json")
    second = save(make_run("vn", 0, 0.1, 0.2, 0.02, config={"slots": 2, "update_norm": "layer"}), "two/a.json")
    save(make_run("vn", 0, 0.1, 0.2, 0.02, config={"slots": 2, "update_norm": "batch"}), "two/b.json")
    records = load([tmp_path / "records" / "one", tmp_path / "records" / "two"])
    assert [record.find("config", "update_norm") for record in records] == [None, "batch"]
    assert records.notes == (f"{second} repeats {first} and was left out.",)


def test_the_earlier_source_wins_and_says_so(save: Save, make_run: Make, tmp_path: Path) -> None:
    first = save(make_run("vn", 0, 0.3, 0.2, 0.02), "one/a.json")
    second = save(make_run("vn", 0, 0.1, 0.2, 0.02), "two/a.json")
    records = load([tmp_path / "records" / "one", tmp_path / "records" / "two"])
    assert [record.number("metrics", "best", "label") for record in records] == [0.3]
    assert records.notes == (f"{second} repeats {first} and was left out.",)


def test_presets_fullest_first(save: Save, make_run: Make, tmp_path: Path) -> None:
    for preset in ("tiny", "quick", "paper"):
        save(make_run("vn", 0, 0.1, 0.2, 0.02, preset=preset), f"{preset}.json")
    records = load([tmp_path / "records"])
    assert records.presets("two-radius") == ["paper", "quick", "tiny"]
    assert [run.preset for run in records.runs("two-radius", "quick")] == ["quick"]


@pytest.mark.parametrize(
    ("kind", "content", "lacks"),
    [
        ("soak", {"counts": {}}, ""),
        ("soak", {"rows": []}, "counts"),
        ("bench", {"rows": []}, ""),
        ("bench", {"counts": {}}, "rows"),
        ("mutation", {}, ""),
    ],
)
def test_each_kind_has_a_frame_of_its_own(save: Save, kind: str, content: dict[str, Any], lacks: str) -> None:
    path = save({"schema": 1, "kind": kind, **content}, "one.json")
    if lacks:
        with pytest.raises(RecordError, match=f"field '{lacks}' is missing"):
            read(path)
    else:
        assert read(path).kind == kind
