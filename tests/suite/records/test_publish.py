"""Published records: what is packed is read back, curves only when they are needed, and nothing unclean goes in."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.records import Record, RecordError, changed_fields, load, publish, unpack
from mooring.suite.records.__main__ import main

COMMIT = "0123456789abcdef"
NAN = float("nan")
LINES, CURVES = "ring.jsonl", "ring.curves.jsonl.xz"


def run(model: str, seed: int = 0, **changes: Any) -> dict[str, Any]:
    epochs = [{"epoch": 0, "loss": 0.1 + 0.2}, {"epoch": 1, "loss": NAN}]
    metrics = {"best": {"score": 0.5}, "final": {"test/score": 0.25}, "epochs": epochs}
    names = {"task": "ring", "model": model, "seed": seed, "preset": "full"}
    settings = {"config": {"slots": 8, "rate": 1e-3}, "versions": {"torch": "2"}, "git_commit": COMMIT}
    diagnostics = {"diagnostics": {"by_scale": [1, None]}}
    return {"schema": 1, "kind": "run", **names, **settings, "metrics": metrics, **diagnostics, **changes}


AUDIT = {"schema": 1, "kind": "audit", "module": "zoo.lse", "findings": [], "git_commit": COMMIT}
BENCH = {"schema": 1, "kind": "bench", "name": "peers", "rows": [], "git_commit": COMMIT}
RAGGED = [{"epoch": 0}, {"epoch": 1, "late": 2.0}]
EVERY = {
    "ring/full/vn-seed0.json": run("vn"),
    "ring/full/vn-seed1.json": run("vn", 1, config={"slots": 8, "rate": 0.5}, title="VN"),
    "ring/full,slots=4/vn-seed0.json": run("vn", config={"slots": 4, "rate": 1e-3}),
    "ring/full/ragged-seed0.json": run("ragged", metrics={"best": {}, "final": {}, "epochs": RAGGED}),
    "ring/full/short-seed0.json": run("short", metrics={"best": {}, "final": {}, "epochs": []}, diagnostics={}),
    "audit/zoo/lse.json": AUDIT,
    "bench/peers.json": BENCH,
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write(tmp_path / "runs", EVERY)


@pytest.fixture
def results(runs: Path, tmp_path: Path) -> Path:
    publish(runs, tmp_path / "results")
    return tmp_path / "results"


def write(folder: Path, records: dict[str, dict[str, Any]]) -> Path:
    for name, record in records.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(record))
    return folder


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def one(results: Path, model: str = "vn", slots: int = 8, seed: int = 0) -> Record:
    (record,) = (
        record
        for record in load([results]).runs("ring")
        if (record.model, record.setting("slots"), record.seed) == (model, slots, seed)
    )
    return record


def test_what_is_published_is_read_back_field_for_field(runs: Path, results: Path, tmp_path: Path) -> None:
    names = ["audit.jsonl", "bench/peers.json", CURVES, LINES]
    assert sorted(path.relative_to(results).as_posix() for path in results.rglob("*.*")) == names
    assert len(unpack(results, tmp_path / "back")) == len(EVERY)
    for name, record in EVERY.items():
        assert text(json.loads((tmp_path / "back" / name).read_text())) == text(record)
    before, after = load([runs]), load([results])
    assert [text(record.content) for record in before] == [text(record.content) for record in after]
    assert [changed_fields(run) for run in before.runs("ring")] == [changed_fields(run) for run in after.runs("ring")]
    assert changed_fields(one(results, slots=4)) == {"slots"}
    # A table names the changed fields in the order of the config.
    orders = [[list(run.mapping("config")) for run in records.runs("ring")] for records in (before, after)]
    assert orders[0] == orders[1]
    assert unpack(results, tmp_path / "back") == []


def test_a_record_of_a_line_is_read_like_one_of_a_file(runs: Path, results: Path) -> None:
    line = one(results)
    assert line.number("metrics", "best", "score") == 0.5
    assert line.parts("metrics", "epochs")[0].find("loss") == 0.1 + 0.2
    assert line.items("diagnostics", "by_scale") == [1, None]
    assert line.mapping("metrics").keys() == {"best", "final", "epochs"}
    assert line.find("diagnostics", "none") is None
    with pytest.raises(RecordError, match=r"results/ring\.jsonl:\d: field 'metrics\.best\.label' is missing"):
        line.number("metrics", "best", "label")


def test_curves_are_decompressed_once_and_only_if_needed(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    decompress: Callable[[bytes], bytes] = lzma.decompress
    monkeypatch.setattr(lzma, "decompress", lambda data: calls.append(1) or decompress(data))
    records = load([results]).runs("ring")
    assert [record.find("metrics", "best") for record in records]
    assert [record.find("config", "slots") for record in records]
    assert calls == []
    assert [record.parts("metrics", "epochs") for record in records]
    assert [record.find("diagnostics") for record in records]
    assert calls == [1]


def test_the_same_records_give_the_same_bytes(runs: Path, results: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in results.rglob("*.*")}
    publish(runs, results)
    assert {path: path.read_bytes() for path in results.rglob("*.*")} == before
    for name in reversed(EVERY):
        publish(tmp_path / "runs", tmp_path / "again", [tmp_path / "runs" / name])
    assert {path: (tmp_path / "again" / path.relative_to(results)).read_bytes() for path in before} == before


def test_a_run_that_was_made_again_replaces_its_line(results: Path, tmp_path: Path) -> None:
    again = run("vn", metrics={"best": {"score": 0.75}, "final": {}, "epochs": [{"epoch": 0}]})
    # Another folder, but the same run: what `update_norm` was before it was an option.
    again["config"]["update_norm"] = "layer"
    publish(write(tmp_path / "later", {"ring/full,update_norm=layer/vn-seed0.json": again}), results)
    assert len(load([results])) == len(EVERY)
    assert one(results).number("metrics", "best", "score") == 0.75
    assert len(one(results).parts("metrics", "epochs")) == 1
    assert len(one(results, seed=1).parts("metrics", "epochs")) == 2


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            run("vn", 9, git_commit=f"{COMMIT}-dirty"),
            "made at commit 0123456789 with changes that were never committed",
        ),
        (run("vn", 9, git_commit=None), "names no commit"),
        (run("vn", 9, git_commit="unknown"), "its commit is 'unknown'"),
        (run("vn", 1, config={"slots": 8, "rate": 0.5}), "the same run as"),
    ],
)
def test_what_cannot_be_made_again_is_not_published(
    runs: Path, results: Path, record: dict[str, Any], message: str
) -> None:
    before = (results / LINES).read_bytes()
    write(runs, {"ring/full/zz-seed9.json": record, "ring/full/new-seed0.json": run("new")})
    with pytest.raises(RecordError, match=message):
        publish(runs, results)
    assert (results / LINES).read_bytes() == before


def test_a_record_in_no_folder_has_no_board(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"vn-seed0\.json: lies in no folder of its board"):
        publish(write(tmp_path / "runs", {"vn-seed0.json": run("vn")}), tmp_path / "results")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"model":"short"', '"model":7', r"ring\.jsonl:\d: field 'model' is int 7, expected a text"),
        ('"model":"short"', '"model":"\\u0007"', r"ring\.jsonl:\d: field 'model' is .* cannot be shown\. Restore"),
        ('{"file":"ring/full/short', '{"file":"../full/short', r"ring\.jsonl:\d: field 'file' is '\.\./full/short"),
        ('{"file":"ring/full/short', '{{"file":"ring/full/short', r"ring\.jsonl:\d: not valid JSON .* Restore"),
    ],
)
def test_a_bad_line_is_named_and_costs_no_other(results: Path, old: str, new: str, message: str) -> None:
    path = results / LINES
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(RecordError, match=message):
        load([results])
    records = load([results], skip=True)
    assert len(records.runs("ring")) == 4
    assert len(records.notes) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (LINES, b'{"schema":2,"kind":"board"}\n', r"ring\.jsonl:1: schema 2, but this version reads 1"),
        (LINES, b'{"schema":1,"kind":"board","shared":{}}\n', r"ring\.jsonl:1: field 'order' is missing"),
        (LINES, b'{"schema":1,"kind":"board"}\n', r"ring\.jsonl:1: field 'shared' is missing"),
        (LINES, b"", r"ring\.jsonl:1: not valid JSON"),
        (CURVES, b"other", r"ring\.curves\.jsonl\.xz: not the curves of ring\.jsonl\. Check out both"),
        (CURVES, None, r"ring\.curves\.jsonl\.xz: cannot be read \(No such file"),
    ],
)
def test_a_bad_board_is_left_out_with_one_note(results: Path, name: str, content: bytes | None, message: str) -> None:
    (results / name).unlink() if content is None else (results / name).write_bytes(content)
    with pytest.raises(RecordError, match=message):
        load([results])
    records = load([results], skip=True)
    assert [record.kind for record in records] == ["audit", "bench"]
    assert len(records.notes) == 1


def test_a_line_without_curves_is_named(results: Path) -> None:
    path = results / LINES
    path.write_text(path.read_text().replace("full/short-seed0", "full/other-seed0"))
    with pytest.raises(RecordError, match=r"ring\.jsonl:\d: its curves cannot be read from .*ring\.curves"):
        one(results, "short").parts("metrics", "epochs")


def test_lines_without_a_board_are_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in (run("vn"), AUDIT)))
    assert [record.kind for record in load([path])] == ["audit", "run"]
    assert len(load([path])[1].parts("metrics", "epochs")) == 2


def test_the_command_publishes_and_explains(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["publish", str(runs), str(tmp_path / "results")])
    assert str(tmp_path / "results" / LINES) in capsys.readouterr().out
    main(["unpack", str(tmp_path / "results" / LINES), str(tmp_path / "back")])
    assert (tmp_path / "back" / "ring/full/vn-seed0.json").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["publish", str(tmp_path / "nowhere"), str(tmp_path / "results")])
    assert "no file or folder" in capsys.readouterr().err
