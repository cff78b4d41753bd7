"""The page on adding a module is followed step by step: its file is saved and its commands are typed as they stand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mooring import zoo
from support import ROOT

PAGE = ROOT / "docs" / "add-a-module.md"


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.mark.usefixtures("own_registry")
def test_the_example_runs_and_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), str(PAGE), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.strip()
    promised = re.search(r"The first prints `(.*?)`", PAGE.read_text())
    assert promised is not None
    assert printed.startswith(promised.group(1))
    assert "counted-mean" in zoo.names()


def test_the_example_stays_short() -> None:
    code = [line for line in block("python").splitlines() if line.strip()]
    assert len(code) <= 30


def test_every_step_of_the_page_works(tmp_path: Path) -> None:
    # As installed: a script in another folder, so that nothing but the command itself finds the module.
    script = tmp_path / "bin" / "mooring"
    script.parent.mkdir()
    script.write_text("from mooring.suite.cli import main\n\nmain()\n")
    here = tmp_path / "project"
    here.mkdir()
    (here / "my_vn.py").write_text(block("python"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    said = {}
    for line in block("sh").splitlines():
        program, *arguments = shlex.split(line)
        command = [sys.executable, *([] if program == "python" else [str(script)]), *arguments]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said[line] = done.stdout
    assert any("counts: n recovered" in text for line, text in said.items() if line.startswith("mooring audit"))
    records = sorted(path.relative_to(here).as_posix() for path in here.glob("runs/**/*-seed0.json"))
    assert records == [
        "runs/two-radius-leaderboard/tiny/my_vn@counted_mean-seed0.json",
        "runs/two-radius-leaderboard/tiny/vn-seed0.json",
        "runs/two-radius/tiny/anchored-seed0.json",
        "runs/two-radius/tiny/my_vn@counted_mean-seed0.json",
    ]
    assert "my_vn:counted_mean" in said["mooring report runs"]
