from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.train.atomic import remove_leftovers, write_atomic


def test_a_failure_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file.json"
    write_atomic(path, "old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new, and longer")
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_data_reaches_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, events = tmp_path / "file", []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append("rename"), replace(self, to))[1])
    write_atomic(path, b"\x00\x01")
    assert events == ["fsync", "rename", "fsync"]
    assert path.read_bytes() == b"\x00\x01"


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    for name in (".a.json.17.tmp", ".b.json.17.tmp", "a.json", "notes.tmp"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, "a.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.json.17.tmp", "a.json", "notes.tmp"]
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "notes.tmp"]
