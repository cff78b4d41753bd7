from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

from mooring.train import provenance


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
    # A file that the clone does not track is not this clone's code.
    (file.parent / "other.py").touch()
    monkeypatch.setattr(provenance, "__file__", str(file.parent / "other.py"))
    assert provenance.git_commit() == "unknown"
