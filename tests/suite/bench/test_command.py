"""``mooring bench`` passes its options on and writes the record."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mooring.suite.bench import WrongResult
from mooring.suite.bench import compare as comparing
from mooring.suite.cli import app


def test_bench_writes_a_record(tmp_path: Path) -> None:
    out = tmp_path / "peers.json"
    options = ["--shapes", "3x7,2x5", "--peers", "slots, FiLM;ISAB", "--no-memory", "--repeats", "1", "--threads", "1"]
    done = CliRunner().invoke(app, ["bench", *options, "--json", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    record = json.loads(out.read_text())
    assert record["kind"] == "bench"
    assert record["name"] == "peers"
    assert [row["contestant"] for row in record["rows"] if row["shape"] == "2x5"][2:] == [
        "slots",
        "slots, FiLM",
        "ISAB",
    ]


def test_no_record_of_a_wrong_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(batch: object) -> None:
        raise WrongResult("bench: wrong")

    monkeypatch.setattr(comparing, "check_oracle", refuse)
    out = tmp_path / "peers.json"
    done = CliRunner().invoke(app, ["bench", "--shapes", "3x7", "--no-memory", "--peers", "isab", "--json", str(out)])
    assert done.exit_code == 1
    assert done.stderr == "bench: wrong\n"
    assert not out.exists()
