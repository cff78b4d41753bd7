"""Cost against the number of nodes of one graph, in memory and from a memory map."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from mooring.nn import SlotVirtualNode
from mooring.suite.bench.apart import time_peers_apart
from mooring.suite.bench.compare import Row, floor_seconds
from mooring.suite.bench.measure import Timing, seconds
from mooring.suite.bench.peak import extra_memory
from mooring.suite.bench.peers import OURS
from mooring.suite.bench.setting import Setting
from mooring.suite.bench.stream import check_stream, forward_stream, memory_map

SIZES = (1_000, 10_000, 100_000, 1_000_000, 2_000_000, 10_000_000)
PEERS_BY_SIZE = (OURS, "write + read", "ISAB", "GPSConv multihead")
# Beyond this a graph stays on disk. Below the other one, memory is lost in the noise of the process.
MOST_IN_MEMORY, LEAST_FOR_MEMORY = 2_000_000, 100_000
# Everything is a multiple of the slots at this size, where fixed costs no longer show.
UNIT = 100_000
MAPPED = "slots, memory map"


def nodes_sweep(
    sizes: Sequence[int], peers: Sequence[str], setting: Setting, repeats: int, memory: bool
) -> Iterator[tuple[list[Row], list[dict[str, Any]]]]:
    """Rows of time a node and memory, and the panels of their plot; after every size, all that was measured so far."""
    unit = min(sizes, key=lambda size: abs(size - UNIT))
    found: dict[tuple[int, str, str], float] = {}
    rows: list[Row] = []
    for size in sizes:
        notes: dict[str, str] = {}
        timings: dict[str, dict[str, Timing]] = {"forward": {}, "training": {}}
        if size <= MOST_IN_MEMORY:
            timings, notes = time_peers_apart(f"1x{size}", peers, setting, repeats)
        mapped = _mapped(size, setting, repeats)
        for kind, times in timings.items():
            for name in [*peers, MAPPED]:
                time = mapped if name == MAPPED and kind == "forward" else times[name].least if name in times else None
                if time is None and not notes.get(name):
                    continue
                if time is not None:
                    found[size, name, kind] = time
                wanted = memory and kind == "training" and time is not None and size >= LEAST_FOR_MEMORY
                rows.append(
                    {
                        "nodes": size,
                        "contestant": name,
                        "pass": kind,
                        "over_floor": time / floor_seconds(times) if time is not None and times else None,
                        "extra_memory": extra_memory([name], f"1x{size}", setting)[name] if wanted else None,
                        "note": notes.get(name),
                    }
                )
        if (unit, OURS, "training") in found:
            yield _by_node(rows, found, unit), _panels(sizes, [*peers, MAPPED], found, unit)


def _by_node(rows: list[Row], found: dict[tuple[int, str, str], float], unit: int) -> list[Row]:
    """The rows with their time a node, as a multiple of the slots' at ``unit`` nodes."""
    for row in rows:
        key = (row["nodes"], row["contestant"], row["pass"])
        base = (unit, row["contestant"] if row["contestant"] == MAPPED else OURS, row["pass"])
        row["time_a_node"] = found[key] / row["nodes"] / (found[base] / unit) if key in found else None
    return rows


def _mapped(size: int, setting: Setting, repeats: int) -> float:
    """Least time of a forward over features on disk."""
    module = SlotVirtualNode(setting.dim, setting.slots, setting.heads, integrate="residual")
    check_stream(module, torch.randn(1009, setting.dim), chunk=307)
    module = module.float().eval()

    def run() -> None:
        for _ in forward_stream(module, chunks):
            pass

    with tempfile.TemporaryDirectory() as folder:
        chunks = memory_map(Path(folder) / "features.npy", size, setting.dim)
        return seconds({MAPPED: run}, min(repeats, 3))[MAPPED].least


def _panels(
    sizes: Sequence[int], names: Sequence[str], found: dict[tuple[int, str, str], float], unit: int
) -> list[dict[str, Any]]:
    """Time against nodes, both passes; and time a node, flat where the cost is linear."""
    base = found[unit, OURS, "training"]
    lines: list[dict[str, Any]] = []
    for name in names:
        for kind, words in (("training", "forward+backward"), ("forward", "forward")):
            y = [found[size, name, kind] / base if (size, name, kind) in found else None for size in sizes]
            if any(value is not None for value in y) and (kind == "training" or name in (OURS, MAPPED)):
                lines.append({"label": f"{name}, {words}", "y": y})
    a_node = [
        {**line, "y": [None if y is None else y * unit / size for y, size in zip(line["y"], sizes, strict=True)]}
        for line in lines
    ]
    of = f"slots, forward+backward, {unit:,} nodes = 1"
    common = {"x": list(sizes), "xlabel": "nodes", "log": "xy"}
    return [
        {**common, "lines": lines, "ylabel": "time", "title": f"Time of one graph ({of})"},
        {**common, "lines": a_node, "ylabel": "time a node", "title": f"Time a node ({of})"},
    ]
