"""The examination of a machine, right and with a back end that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mooring.ops import backend, plain
from mooring.suite import cli, cli_modules, doctor
from mooring.suite.bench.shapes import Setting
from support import ROOT, run_script


def run(monkeypatch: pytest.MonkeyPatch, checks: tuple[str, ...], *arguments: str) -> Any:
    monkeypatch.setattr(doctor, "CHECKS", {name: doctor.CHECKS[name] for name in checks})
    monkeypatch.setattr(cli_modules, "console", Console(width=80))
    return CliRunner().invoke(cli.app, ["doctor", *arguments])


def test_a_machine_that_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything, as a user runs it, on one screen of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    printed = run_script(ROOT / "src/mooring/suite/cli.py", "doctor", "--json", str(tmp_path / "report.json"))
    assert "mooring doctor, cpu: all right" in printed
    table = printed.partition("report:")[0].splitlines()
    assert max(map(len, table)) <= 80
    assert len(table) <= 24
    record = json.loads((tmp_path / "report.json").read_text())
    assert record["kind"] == "doctor"
    assert record["versions"]["torch"]
    rights = {finding["check"]: finding["right"] for finding in record["findings"]}
    assert list(rights) == list(doctor.CHECKS)
    assert {name for name, right in rights.items() if right} == {"oracle", "repeatable", "compiled", "bfloat16"}
    assert all(right is not False for right in rights.values())


def test_a_wrong_back_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = plain.write

    def write(*inputs: Any) -> Any:
        content, log_mass = right(*inputs)
        return content * 1.001, log_mass

    monkeypatch.setattr(plain, "write", write)
    monkeypatch.setattr(backend, "load_native", lambda: None)
    done = run(monkeypatch, ("oracle", "repeatable"))
    assert done.exit_code == 1
    assert "1 wrong" in done.output
    lines = [line.split() for line in done.output.splitlines() if line.strip().startswith("oracle")]
    assert [line[1] for line in lines] == ["WRONG", "right"]  # large graphs go to the tiles
    assert "doctor: oracle: wrong" in done.output


def test_an_error_in_a_check_is_its_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(setting: Setting) -> Any:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setitem(doctor.CHECKS, "kernels", fails)
    done = run(monkeypatch, ("kernels", "repeatable"))
    assert done.exit_code == 1
    assert "RuntimeError: no kernel image is available" in done.output


@pytest.mark.parametrize("device", ["cuda", "tpu"])
def test_a_device_that_is_not_there(device: str) -> None:
    if device == "cuda" and doctor.torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="device"):
        doctor.examine(device)
