"""Whatever lies in the folder, the page is made of the rest, and what was left out is named with the reason."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mooring.suite import cli
from mooring.suite.chapters import build_report, tables_text, write_figures
from mooring.suite.records import Record, Records
from mooring.suite.records.reader import LARGEST_FILE
from mooring.suite.report import RecordError, Summary
from mooring.suite.report.page import salvage


def _hostile() -> Any:
    spec = importlib.util.spec_from_file_location("hostile", Path(__file__).parent / "hostile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = _hostile()
HOSTILE = dict(hostile.hostile_records())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one good record: the card of a module named good."""
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "good.json").write_text(json.dumps(hostile.audit(module="good")))
    return tmp_path / "records"


def build(folder: Path) -> Summary:
    """The report of a folder that holds the good record and others, with what must be true of every such report."""
    summary = build_report([folder], folder.parent / "report.html")
    assert "good" in [row[0] for table in summary.tables if table.name == "audit" for row in table.rows]
    page = summary.path.read_text(encoding="utf-8")
    assert ">good</th>" in page
    shown = unescape(page)
    for note in summary.notes:
        assert note.isprintable()
        assert note in shown
    return summary


def noted(summary: Summary, name: str) -> str:
    (note,) = [note for note in summary.notes if f"{name}: " in note]
    return note


def test_there_are_many_kinds() -> None:
    assert len(HOSTILE) == len(list(hostile.hostile_records()))
    assert len(set(HOSTILE.values())) == len(HOSTILE) > 200


@pytest.mark.parametrize("name", HOSTILE)
def test_an_unusable_record_is_left_out_and_named(folder: Path, name: str) -> None:
    (folder / f"{name}.json").write_bytes(HOSTILE[name])
    summary = build(folder)
    assert summary.num_records == 1
    note = noted(summary, f"{name}.json")
    # A reason in our words; what Python says of an error nobody foresaw is no reason for a reader.
    assert not any(word in note for word in ("Error:", "sys.", "codec can't encode"))


def test_all_of_them_at_once(folder: Path) -> None:
    sound = folder.parent / "sound"
    sound.mkdir()
    for task in ("two-radius", "motifs", "linksets", "two-radius-original", "two-radius-leaderboard"):
        (sound / f"{task}.json").write_text(json.dumps(hostile.run(task, model="sound")))
    (sound / "verify.json").write_text(json.dumps(hostile.verify()))
    (sound / "bench.json").write_text(json.dumps(hostile.bench(name="sound")))
    for name, content in HOSTILE.items():
        (folder / f"{name}.json").write_bytes(content)
    summary = build_report([folder, sound], folder.parent / "report.html")
    assert {name for name in HOSTILE if not any(f"/{name}.json: " in note for note in summary.notes)} == set()
    alone = build_report([sound, folder / "good.json"], folder.parent / "alone.html")
    assert summary.num_records == alone.num_records == 8
    assert alone.notes == ()
    assert summary.tables == alone.tables


@pytest.mark.parametrize("name", ["empty", "deep-lists", "versions-list", "scales-text", "best-nan", "bench-cell-nan"])
def test_nothing_but_bad_records_is_one_line_that_names_the_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(HOSTILE[name])
    monkeypatch.setattr(sys, "argv", ["mooring", "report", str(bad), "--out", str(tmp_path / "report.html")])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    reading, line = capsys.readouterr().err.splitlines()
    assert reading == f"report: reading {bad} ..."
    assert "no usable record" in line
    assert f"{bad}: " in line
    assert not (tmp_path / "report.html").exists()


def test_the_terminal_names_what_was_left_out(folder: Path) -> None:
    (folder / "[bold]bad[red].json").write_bytes(HOSTILE["versions-list"])
    done = CliRunner().invoke(cli.app, ["report", str(folder), "--out", str(folder.parent / "report.html")])
    assert done.exit_code == 0, done.output
    assert "[bold]bad[red].json: field 'versions' is list" in done.output


def test_tables_and_figures_leave_it_out_too(folder: Path) -> None:
    (folder / "bad.json").write_bytes(HOSTILE["best-nan"])
    assert "bad.json: field 'metrics.best.label' is nan" in tables_text([folder])
    (folder / "claim.json").write_text(json.dumps(hostile.verify()))
    assert [path.name for path in write_figures([folder], folder.parent / "figures")] == ["claim-thm-hostile.svg"]


class Tags(HTMLParser):
    """Every tag of a page, and the attributes that could run or load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.active: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += [dict(attrs).get("type") or ""] if tag == "script" else []
        for name, value in attrs:
            local = (value or "").startswith(("#", "data:image/png;base64,"))
            if name.startswith("on") or (name in ("href", "src", "action", "data") and not local):
                self.active.append(f"{tag} {name}={value}")


def test_odd_names_are_shown_and_not_obeyed(folder: Path) -> None:
    for name, content in hostile.strange_records():
        (folder / f"{name}.json").write_bytes(content)
    summary = build(folder)
    assert summary.notes == ()
    page = Tags(summary.path.read_text(encoding="utf-8"))
    assert page.tags.isdisjoint({"img", "iframe", "object", "embed", "link", "base", "form"})
    assert page.active == []
    assert set(page.scripts) == {"", "application/json"}
    assert page.scripts.count("") == 1, "the page's own script and no other"
    shown = {cell for table in summary.tables for row in table.rows for cell in row}
    assert set(hostile.STRANGE.values()) <= shown

    figures = write_figures([folder], folder.parent / "figures" / "inner")
    assert len(figures) > 20
    assert {path.parent for path in figures} == {folder.parent / "figures" / "inner"}
    assert sorted(path.name for path in folder.parent.iterdir()) == ["figures", "records", "report.html"]


def test_a_live_tag_would_be_found() -> None:
    found = Tags('<p><img src="x" onerror="alert(1)"><a href="https://example.org">a</a></p>')
    assert Tags("<script>alert(1)</script>").scripts == [""]
    assert found.tags == {"p", "img", "a"}
    assert found.active == ["img src=x", "img onerror=alert(1)", "a href=https://example.org"]


def test_a_folder_named_like_a_record(folder: Path) -> None:
    (folder / "inner.json").mkdir()
    (folder / "vn-seed0.json").mkdir()
    summary = build(folder)
    assert "not a regular file" in noted(summary, "inner.json")
    assert "not a regular file" in noted(summary, "vn-seed0.json")


def test_links_to_themselves_and_to_nothing(folder: Path) -> None:
    (folder / "loop.json").symlink_to(folder / "loop.json")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    (folder / "again").symlink_to(folder)
    summary = build(folder)
    assert "cannot be read" in noted(summary, "loop.json")
    assert "cannot be read" in noted(summary, "gone.json")
    assert len(summary.notes) == 2


def test_a_pipe_and_a_device_are_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    (folder / "endless.json").symlink_to("/dev/zero")
    summary = build(folder)
    assert "not a regular file" in noted(summary, "pipe.json")
    assert "not a regular file" in noted(summary, "endless.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read(folder: Path) -> None:
    (folder / "secret.json").write_text("{}")
    (folder / "secret.json").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0)
    summary = build(folder)
    (folder / "closed").chmod(0o700)
    assert "cannot be read (Permission denied)" in noted(summary, "secret.json")
    assert "cannot be read (Permission denied)" in noted(summary, "closed")


def test_what_the_system_refuses_to_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret.json").write_text("{}")
    (folder / "closed").mkdir()
    usual_read, usual_scan = Path.read_text, os.scandir

    def refuse_file(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "secret.json":
            raise PermissionError(13, "Permission denied", str(path))
        return usual_read(path, *arguments, **options)

    def refuse_folder(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return usual_scan(path)

    monkeypatch.setattr(Path, "read_text", refuse_file)
    monkeypatch.setattr(os, "scandir", refuse_folder)
    summary = build(folder)
    assert "cannot be read (Permission denied)" in noted(summary, "secret.json")
    assert "cannot be read (Permission denied)" in noted(summary, "closed")


def test_a_file_of_a_hundred_megabytes_is_refused_by_its_size(folder: Path) -> None:
    with (folder / "vast.json").open("wb") as file:
        file.write(b'{"schema": 1, "kind": "run", "model": "')
        file.truncate(100 * 2**20)
    note = noted(build(folder), "vast.json")
    assert f"100 MB, a record may have at most {LARGEST_FILE // 2**20} MB" in note


def test_a_file_name_that_is_no_text(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9\x1b[2J.json")
    (folder / name).write_bytes(b"{}")
    summary = build(folder)
    (note,) = summary.notes
    assert r"caf\udce9\x1b[2J.json: field 'schema' is missing" in note
    (folder / "good.json").unlink()
    with pytest.raises(RecordError, match=r"caf\\udce9"):
        build_report([folder], folder.parent / "report.html")


def test_the_same_run_twice_counts_once(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps(hostile.audit(module="twice")))
    assert f"the same audit as {folder / 'a.json'}" in noted(build(folder), "b.json")


def records(*names: str) -> Records:
    return Records(tuple(Record(Path(f"{name}.json"), "run", {"name": name}) for name in names))


def joined(selection: Records) -> str:
    """Join the names; RecordError for the record named bad, and for d beside b."""
    names = [record.text("name") for record in selection]
    for record in selection:
        if record.text("name") == "bad" or (record.text("name") == "d" and "b" in names):
            raise record.error("cannot be joined.")
    return " ".join(names)


def test_a_chapter_leaves_out_the_records_that_it_cannot_use() -> None:
    made, refused = salvage(joined, records("a", "b", "bad", "c", "d", "e"), "the table")
    assert made == "a b c e"
    again = "Write the record again with `mooring run TASK --preset PRESET`."
    assert list(refused.values()) == [
        f"Left out of 'the table': {name}.json: cannot be joined. {again}" for name in ("bad", "d")
    ]


@pytest.mark.parametrize("fault", [ModuleNotFoundError("No module named 'matplotlib'"), KeyError("ours")])
def test_no_record_is_blamed_for_another_error(fault: Exception) -> None:
    def broken(_: Records) -> str:
        raise fault

    with pytest.raises(type(fault)):
        salvage(broken, records("a", "b"), "the table")
