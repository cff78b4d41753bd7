from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from mooring.suite import files
from mooring.suite.records import run as provenance
from mooring.suite.records import write


def test_versions_name_what_decides_the_numbers() -> None:
    found = provenance.versions()
    assert found.keys() == {"python", *provenance.PACKAGES}
    assert found["torch"] == torch.__version__


def test_the_commit_of_a_clone_and_unknown_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clone" / "code.py"
    file.parent.mkdir()
    file.write_text("one = 1\n")
    monkeypatch.setattr(provenance, "__file__", str(file))
    assert provenance.git_commit() == "unknown"
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "code.py"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(file.parent), *command], check=True)
    clean = provenance.git_commit()
    assert re.fullmatch("[0-9a-f]{40}", clean)
    file.write_text("one = 2\n")
    assert provenance.git_commit() == f"{clean}-dirty"
    file.write_text("one = 1\n")
    assert provenance.git_commit() == clean
    # A file that the clone does not track is not this clone's code.
    (file.parent / "other.py").touch()
    monkeypatch.setattr(provenance, "__file__", str(file.parent / "other.py"))
    assert provenance.git_commit() == "unknown"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with some code, a record and a page."""
    for name in ("src/code.py", "results/a.json", "docs/page.md", "README.md", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\n")
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "src" / "code.py"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("results/a.json", False),
        ("results/new.json", False),
        ("docs/page.md", False),
        ("README.md", False),
        ("scratch.py", False),
        ("src/code.py", True),
        ("src/inner/new.py", True),
        ("experiments/new.py", True),
        ("pyproject.toml", True),
    ],
)
def test_only_code_makes_a_commit_dirty(clone: Path, name: str, dirty: bool) -> None:
    clean = provenance.git_commit()
    assert re.fullmatch("[0-9a-f]{40}", clean)
    (clone / name).parent.mkdir(exist_ok=True)
    (clone / name).write_text("two\n")
    assert provenance.git_commit() == (f"{clean}-dirty" if dirty else clean)


def test_a_commit_that_a_clone_does_not_have_is_told(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    ours, other = provenance.git_commit(), "0" * 40
    assert provenance.unknown_commits(clone / "results", {ours, other}) == {other}
    assert provenance.unknown_commits(clone / "results", {ours}) == set()
    # Without any of them the history is another one.
    assert provenance.unknown_commits(clone / "results", {other}) == set()
    # Records elsewhere may be of other code.
    assert provenance.unknown_commits(tmp_path_factory.mktemp("elsewhere"), {ours, other}) == set()
    (clone / ".git" / "shallow").write_text(f"{ours}\n")
    assert provenance.unknown_commits(clone / "results", {ours, other}) == set()


def test_git_that_fails_has_not_said_that_nothing_changed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = subprocess.run

    def slow(command: list[str], **options: Any) -> Any:
        if "status" in command:
            raise subprocess.TimeoutExpired(command, 20)
        return usual(command, **options)

    assert provenance.git_commit() != "unknown"
    monkeypatch.setattr(subprocess, "run", slow)
    assert provenance.git_commit() == "unknown"


def test_a_record_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "git_commit", lambda: "0123456789")
    write(tmp_path / "bench.json", {"kind": "bench", "versions": {"ray": "2"}, "rows": [float("inf")]})
    content = json.loads((tmp_path / "bench.json").read_text())
    assert list(content) == ["schema", "kind", "versions", "rows", "git_commit"]
    assert (content["schema"], content["git_commit"]) == (provenance.SCHEMA, "0123456789")
    assert content["versions"] == {**provenance.versions(), "ray": "2"}


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "record.json"
    write(path, {"a": 1})

    def power_cut(*_: Any) -> None:
        raise OSError("the lights went out")

    monkeypatch.setattr(files.os, "fsync", power_cut)
    with pytest.raises(OSError, match="lights"):
        write(path, {"a": 2})
    assert json.loads(path.read_text())["a"] == 1
    assert [item.name for item in path.parent.iterdir()] == ["record.json"]
