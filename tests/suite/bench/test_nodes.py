"""Cost against the number of nodes, in memory and streamed from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mooring.nn import SlotVirtualNode
from mooring.suite.bench import Setting, WrongResult, bench, nodes
from mooring.suite.bench.nodes import MAPPED, check_stream, forward_stream, memory_map
from mooring.suite.chapters import build_report

SMALL = Setting(dim=8, slots=3, heads=2)


def test_nodes(tmp_path: Path) -> None:
    sizes = (101, 211)
    record = bench(sweep="nodes", sizes=sizes, threads=1, repeats=1, peers=["ISAB"], setting=SMALL, memory=False)
    rows = {(row["nodes"], row["contestant"], row["pass"]): row for row in record["rows"]}
    assert rows[211, "slots", "training"]["time_per_node"] == pytest.approx(1.0)
    assert rows[211, MAPPED, "forward"]["time_per_node"] == pytest.approx(1.0)
    assert (211, MAPPED, "training") not in rows
    assert [line["label"] for line in record["series"][0]["lines"]] == [
        "slots, forward+backward",
        "slots, forward",
        "ISAB, forward+backward",
        "slots, memory map, forward",
    ]
    assert all(len(line["y"]) == len(sizes) for panel in record["series"] for line in panel["lines"])
    (tmp_path / "record.json").write_text(json.dumps(record))
    build_report([tmp_path], tmp_path / "page.html")
    assert "Cost: nodes" in (tmp_path / "page.html").read_text()


def test_a_stream_from_a_file_is_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.nodes.CHUNK", 31)
    module = SlotVirtualNode(8, slots=3, heads=2, init_std=1.0)
    chunks = memory_map(tmp_path / "features.npy", 101, 8)
    x = torch.cat(list(chunks()))
    assert [len(chunk) for chunk in chunks()] == [31, 31, 31, 8]
    torch.testing.assert_close(torch.cat(list(forward_stream(module, chunks))), module(x).detach())


def test_a_wrong_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = SlotVirtualNode(8, slots=3, heads=2, init_std=1.0), torch.randn(23, 8)
    assert check_stream(module, x, chunk=7) < 1e-10
    monkeypatch.setattr(nodes.ops, "merge", lambda *states: states[0])
    with pytest.raises(WrongResult, match="the stream differs from all nodes at once"):
        check_stream(module, x, chunk=7)
