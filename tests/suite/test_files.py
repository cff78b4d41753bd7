from __future__ import annotations

import ast
import errno
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from filelock import Timeout

from mooring.suite.chapters import build_report
from mooring.suite.files import hold, remove_leftovers, write_atomic

SOURCE = Path(__file__).parents[2] / "src" / "mooring"


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


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """No file may grow beyond so many bytes: the system stops the write half way, as a full disk does."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)

    return limited


def test_a_full_disk_leaves_the_old_file_and_names_it(
    tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "page.html"
    write_atomic(path, "old")
    with full_disk(100), pytest.raises(OSError, match=r"page\.html"):
        write_atomic(path, "n" * 1000)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_full_disk_leaves_the_old_page(
    tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    card = {"schema": 1, "kind": "audit", "module": "mean", "findings": []}
    (tmp_path / "mean.json").write_text(json.dumps(card))
    page = tmp_path / "out" / "report.html"
    write_atomic(page, "the last page")
    with full_disk(1000), pytest.raises(OSError, match=r"report\.html"):
        build_report([tmp_path], page)
    assert page.read_text() == "the last page"
    build_report([tmp_path], page)
    assert page.stat().st_size > 1000


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "real.md", tmp_path / "link.md"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


WRITERS = ("write_text", "write_bytes", "savefig")


@pytest.mark.parametrize("path", sorted((SOURCE / "suite" / "report").rglob("*.py")), ids=lambda path: path.stem)
def test_the_report_writes_files_in_no_other_way(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in WRITERS:
            # Drawings go to memory first.
            assert (path.stem, node.attr) == ("drawing", "savefig"), f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            modes = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            assert not (name == "open" and any(set(mode) & set("wax+") for mode in modes)), f"{path}:{node.lineno}"


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_locks_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    with hold(tmp_path / "lock") as held:
        assert not held
    # A process that was killed leaves nothing behind that would stop its successor.
    with hold(tmp_path / "lock"), hold(tmp_path / "lock"):
        pass


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    with hold(tmp_path / "lock") as held:
        assert held
        with pytest.raises(Timeout), hold(tmp_path / "lock", 0):
            pass
    with hold(tmp_path / "lock", 0) as held:
        assert held
