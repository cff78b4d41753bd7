"""Records of tiny measurements: every field is there, the report can read them, messages tell what is allowed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mooring.nn import SlotVirtualNode
from mooring.suite.bench import Setting, bench
from mooring.suite.bench.floor import COPY, PRODUCTS
from mooring.suite.bench.measure import seconds
from mooring.suite.bench.modules import FlexSlots, ProjectedSlots
from mooring.suite.bench.nodes import MAPPED
from mooring.suite.bench.peers import PEERS
from mooring.suite.bench.sizes import settings
from mooring.suite.bench.stream import forward_stream, memory_map
from mooring.suite.report import build_report

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


def test_nodes(tmp_path: Path) -> None:
    sizes = (101, 211)
    record = bench(sweep="nodes", sizes=sizes, threads=1, repeats=1, peers=["ISAB"], setting=SMALL, memory=False)
    rows = {(row["nodes"], row["contestant"], row["pass"]): row for row in record["rows"]}
    assert rows[211, "slots", "training"]["time_a_node"] == pytest.approx(1.0)
    assert rows[211, MAPPED, "forward"]["time_a_node"] == pytest.approx(1.0)
    assert (211, MAPPED, "training") not in rows
    assert [line["label"] for line in record["series"][0]["lines"]] == [
        "slots, forward+backward",
        "slots, forward",
        "ISAB, forward+backward",
        "slots, memory map, forward",
    ]
    assert all(len(line["y"]) == len(sizes) for panel in record["series"] for line in panel["lines"])
    assert "Cost: nodes" in page(record, tmp_path)


def test_slots() -> None:
    varied = settings(Setting())
    assert len(varied) == len(set(varied)) == 1 + 3 + 3 + 3
    record = bench(["3x7"], sweep="slots", threads=1, repeats=1)
    assert [(row["slots"], row["heads"], row["dim"]) for row in record["rows"]] == [
        (setting.slots, setting.heads, setting.dim) for setting in varied
    ]
    assert {row["order"] for row in record["rows"]} == {"folded", "projected"}


def test_a_stream_from_a_file_is_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.stream.CHUNK", 31)
    module = SlotVirtualNode(8, slots=3, heads=2, init_std=1.0)
    chunks = memory_map(tmp_path / "features.npy", 101, 8)
    x = torch.cat(list(chunks()))
    assert [len(chunk) for chunk in chunks()] == [31, 31, 31, 8]
    torch.testing.assert_close(torch.cat(list(forward_stream(module, chunks))), module(x).detach())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_slots_are_projected_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not compiled, which takes a minute: the same function, run step by step.
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    sizes = torch.tensor([5, 2, 11])
    batch, x = torch.repeat_interleave(torch.arange(3), sizes), torch.randn(18, 8)
    flex, plain = FlexSlots(SMALL), ProjectedSlots(SMALL)
    plain.load_state_dict(flex.state_dict())
    with torch.no_grad():
        found = flex(x, batch, 3)
        expected = [
            plain(part.unsqueeze(0), torch.ones(1, len(part), dtype=torch.bool)) for part in x.split(sizes.tolist())
        ]
    torch.testing.assert_close(found, torch.cat(expected, dim=1).squeeze(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"shapes": ["peptide"]},
            "bench: unknown shape 'peptide'; did you mean 'peptides'? Expected molecules, peptides, ",
        ),
        ({"peers": ["isap"]}, "bench: unknown peer 'isap'; did you mean 'isab'? "),
        ({"peers": ["FiLM"]}, "bench: unknown peer 'FiLM'; did you mean 'slots-film'? "),
        ({"threads": 0}, "bench: threads=0, expected 1 or more."),
        ({"repeats": -1}, "bench: repeats=-1, expected 1 or more."),
        ({"peers": ["zoo.lze"]}, "zoo: unknown module 'lze'; did you mean 'lse'?"),
        ({"peers": ["zoo.none"]}, "bench: 'zoo.none' is the absence of a module and takes no time."),
        ({"sweep": "node"}, "bench: unknown sweep 'node'; did you mean 'nodes'? "),
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


def test_first_calls_are_not_counted_and_slow_contestants_have_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.measure.PATIENCE", 0.01)
    calls = {"slow": 0, "quick": 0}

    def slow() -> None:
        calls["slow"] += 1
        time.sleep(0.2 if calls["slow"] == 1 else 0.02)

    def quick() -> None:
        calls["quick"] += 1

    found = seconds({"slow": slow, "quick": quick}, 5)
    assert calls == {"slow": 3, "quick": 11}
    assert 0.02 <= found["slow"].median < 0.2


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
