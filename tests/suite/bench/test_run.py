"""Records of tiny measurements: every field is there, the report can read them, messages tell what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from mooring.suite.bench import Setting, WrongResult, bench
from mooring.suite.bench import compare as comparing
from mooring.suite.bench.compare import settings
from mooring.suite.bench.measure import COPY, PRODUCTS
from mooring.suite.bench.peers import PEERS
from mooring.suite.chapters import build_report
from mooring.suite.cli import app

SMALL = Setting(dim=8, slots=3, heads=2)
EAGER = [name for name, peer in PEERS.items() if not peer.compiled]


def page(record: dict[str, Any], folder: Path) -> str:
    (folder / "record.json").write_text(json.dumps(record))
    build_report([folder], folder / "page.html")
    return (folder / "page.html").read_text()


def test_peers(tmp_path: Path) -> None:
    record = bench(["3x7", "2x13"], threads=1, repeats=1, peers=EAGER, setting=SMALL, memory=False)
    assert {(row["shape"], row["contestant"]) for row in record["rows"]} == {
        (shape, name) for shape in ("3x7", "2x13") for name in (PRODUCTS, COPY, *EAGER)
    }
    for row in record["rows"]:
        for kind in ("forward", "training"):
            assert row[f"{kind}_over_floor"] > 0
            assert row[f"{kind}_over_slots"] == pytest.approx(1.0) or row["contestant"] != "slots"
    for shape in ("3x7", "2x13"):
        floor = [row["training_over_floor"] for row in record["rows"] if row["shape"] == shape][:2]
        assert sum(floor) == pytest.approx(1.0)
    shown = page(record, tmp_path)
    assert record["title"] in shown
    assert record["machine"] in shown
    assert all(name in shown for name in EAGER)


def test_what_does_not_fit_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.peers.MOST_SCORES", 3 * 7 * 7 * 2 - 1)
    record = bench(["3x7"], threads=1, repeats=1, peers=["ISAB", "GPSConv multihead"], setting=SMALL, memory=False)
    rows = {row["contestant"]: row for row in record["rows"]}
    assert rows["GPSConv multihead"]["training_over_floor"] is None
    assert rows["GPSConv multihead"]["note"] == "left out: 294 scores at once"
    assert rows["ISAB"]["note"] is None
    assert rows["ISAB"]["training_over_floor"] > 0


def test_a_compiler_that_does_not_run_is_left_out_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise RuntimeError("no C++ compiler\nand more")

    monkeypatch.setattr(torch, "compile", lambda *arguments, **options: refuse)
    record = bench(["3x7"], threads=1, repeats=1, peers=["slots, compiled"], setting=SMALL, memory=False)
    assert record["rows"][-1]["note"] == "left out: no C++ compiler"
    assert record["rows"][-1]["forward_over_floor"] is None


def test_slots() -> None:
    varied = settings(Setting())
    assert len(varied) == len(set(varied)) == 1 + 3 + 3 + 3
    record = bench(["3x7"], sweep="slots", threads=1, repeats=1)
    assert [(row["slots"], row["heads"], row["dim"]) for row in record["rows"]] == [
        (setting.slots, setting.heads, setting.dim) for setting in varied
    ]
    assert {row["order"] for row in record["rows"]} == {"folded", "projected"}


def test_default() -> None:
    record = bench(["3x7"], sweep="default", repeats=1, setting=SMALL)
    assert [(row["shape"], row["threads"], row["width"]) for row in record["rows"]] == [("3x7", 1, 8), ("3x7", 2, 8)]
    assert all(row["ISAB over PyTorch alone"] > 0 and row["default over GINEConv"] > 0 for row in record["rows"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": ["peptide"]}, "bench: unknown shape 'peptide'; did you mean 'peptides'?"),
        ({"shapes": ["xyz"]}, "bench: unknown shape 'xyz'; the shapes are molecules, peptides, "),
        ({"peers": ["isap"]}, "bench: unknown peer 'isap'; did you mean 'isab'?"),
        ({"peers": ["FiLM"]}, "bench: unknown peer 'FiLM'; did you mean 'slots-film'?"),
        ({"threads": 0}, "bench: threads=0, expected 1 or more."),
        ({"repeats": -1}, "bench: repeats=-1, expected 1 or more."),
        ({"peers": ["zoo.lze"]}, "zoo: unknown module 'lze'; did you mean 'lse'?"),
        ({"peers": ["zoo.none"]}, "bench: 'zoo.none' builds no module; nothing to time."),
        ({"sweep": "node"}, "bench: unknown sweep 'node'; did you mean 'nodes'?"),
    ],
)
def test_messages(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"bench|zoo") as caught:
        bench(**options)
    assert str(caught.value).startswith(message)


def test_heads_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"dim=7, slots=3, heads=2 .* heads that divide dim"):
        Setting(7, 3, 2)


def test_every_shape_is_saved_as_soon_as_it_is_measured() -> None:
    shapes: list[set[str]] = []
    bench(
        ["3x7", "2x5"],
        threads=1,
        repeats=1,
        peers=["ISAB"],
        setting=SMALL,
        memory=False,
        save=lambda record: shapes.append({row["shape"] for row in record["rows"]}),
    )
    assert shapes == [{"3x7"}, {"3x7", "2x5"}, {"3x7", "2x5"}]


def test_a_sweep_over_the_zoo_times_its_modules_and_leaves_pairs_of_a_large_graph_out() -> None:
    record = bench(
        ["1x7", "1x20000"], 1, 1, sweep="zoo", peers=["zoo.gmt", "zoo.transformer"], setting=SMALL, memory=False
    )
    assert record["name"] == "zoo"
    found = {(row["shape"], row["contestant"]): row for row in record["rows"]}
    assert found["1x7", "zoo.transformer"]["training_over_slots"] > 0
    assert found["1x20000", "zoo.gmt"]["training_over_slots"] > 0
    assert found["1x20000", "zoo.transformer"]["training_over_slots"] is None
    assert found["1x20000", "zoo.transformer"]["note"] == "left out: 800,000,000 scores at once"


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


def test_without_cuda_the_command_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = CliRunner().invoke(app, ["bench", "--device", "cuda"])
    assert isinstance(done.exception, ValueError)
    assert str(done.exception).startswith("bench: device 'cuda' was requested, but torch finds no CUDA device.")
    assert "\n" not in str(done.exception)


def test_the_device_is_in_the_record_and_is_one_that_is_known() -> None:
    assert bench(["3x7"], 1, 1, peers=["ISAB"], setting=SMALL, memory=False)["settings"]["device"] == "cpu"
    with pytest.raises(ValueError, match="unknown device 'tpu'; expected cpu or cuda"):
        Setting(device="tpu")
