"""``mooring list`` and the completion of a shell: what is registered, without the seconds of importing it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from mooring.suite import terminal
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from listing import as_text

CPU_SECONDS = 1.0


def test_the_file_has_what_is_registered() -> None:
    # Tests of the registry add modules of their own, so it is asked in a new process.
    code = "import json; from listing import collected; print(json.dumps(collected()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    assert terminal.listed() == json.loads(done.stdout), "run: python tools/listing.py"
    text = (files("mooring.suite") / terminal.LISTING).read_text(encoding="utf-8")
    assert text == as_text(terminal.listed())


def test_the_names_are_printed_in_less_than_a_second() -> None:
    listed = "from mooring.suite.cli import app; app(['list'], standalone_mode=False)"
    code = f"import sys; {listed}; print('torch' in sys.modules)"
    before = os.times()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = os.times()
    assert done.stdout.splitlines()[-1] == "False"
    assert all(name in done.stdout for name in ("two-radius", "peptides", "exphormer", "moored"))
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    assert spent < CPU_SECONDS


@pytest.mark.parametrize(
    ("complete", "incomplete", "names"),
    [
        (lambda _, text: terminal.complete_task(text), "two-radius-p", ["two-radius-permutation"]),
        (terminal.complete_preset, "q", ["quick"]),
        (terminal.complete_models, "vn,anchored-g", ["vn,anchored-global-film"]),
    ],
)
def test_a_shell_completes_names(complete: object, incomplete: str, names: list[str]) -> None:
    assert complete(SimpleNamespace(params={"task": "two-radius"}), incomplete) == names


def test_a_shell_completes_records_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert terminal.complete_record("") == []
    folder = Path("runs/two-radius/quick")
    folder.mkdir(parents=True)
    for name in ("vn-seed0.json", "anchored-seed0.json", "notes.txt"):
        (folder / name).write_text("{}")
    assert terminal.complete_record("runs/t") == [f"{folder}/anchored-seed0.json", f"{folder}/vn-seed0.json"]
    assert terminal.complete_record("runs/m") == []


def test_an_unknown_task_completes_to_nothing() -> None:
    assert terminal.complete_preset(SimpleNamespace(params={"task": "my.module:Task"}), "q") == []
