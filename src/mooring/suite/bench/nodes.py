"""Cost against the number of nodes of one graph, in memory and streamed from a memory map.

A stream is one pass over the file to write and one to read, in chunks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.suite.bench.compare import TOLERANCE, Row, WrongResult, floor_seconds, time_peers_in_new_process
from mooring.suite.bench.measure import Timing, extra_memory, seconds
from mooring.suite.bench.peers import OURS
from mooring.suite.bench.shapes import Setting

SIZES = (1_000, 10_000, 100_000, 1_000_000, 2_000_000, 10_000_000)
PEERS_BY_SIZE = (OURS, "write + read", "ISAB", "GPSConv multihead")
# Above the first a graph stays on disk; below the second its memory is lost in the noise of the process.
MOST_IN_MEMORY, LEAST_FOR_MEMORY = 2_000_000, 100_000
# All times are multiples of the slots at this size, at which fixed costs no longer matter.
UNIT = 100_000
MAPPED = "slots, memory map"
# Nodes of one chunk of a stream.
CHUNK = 65_536

Chunks = Callable[[], Iterator[Tensor]]


def compare_nodes(
    sizes: Sequence[int], peers: Sequence[str], setting: Setting, repeats: int, memory: bool
) -> Iterator[tuple[list[Row], list[dict[str, Any]]]]:
    """Yield after every size the rows of time per node and memory so far, and the panels of their plot."""
    unit = min(sizes, key=lambda size: abs(size - UNIT))
    seconds_of: dict[tuple[int, str, str], float] = {}
    rows: list[Row] = []
    for size in sizes:
        timings: dict[str, dict[str, Timing]] = {"forward": {}, "training": {}}
        notes: dict[str, str] = {}
        if size <= MOST_IN_MEMORY:
            timings, notes = time_peers_in_new_process(f"1x{size}", peers, setting, repeats)
        for kind, times in timings.items():
            minima = {name: timing.minimum for name, timing in times.items()}
            if kind == "forward":
                minima[MAPPED] = _mapped(size, setting, repeats)
            for name in [*peers, MAPPED]:
                if name not in minima and name not in notes:
                    continue
                row: Row = {"nodes": size, "contestant": name, "pass": kind, "over_floor": None, "extra_memory": None}
                if name in minima:
                    seconds_of[size, name, kind] = minima[name]
                    row["over_floor"] = minima[name] / floor_seconds(times) if times else None
                    if memory and kind == "training" and size >= LEAST_FOR_MEMORY:
                        row["extra_memory"] = extra_memory([name], f"1x{size}", setting)[name]
                rows.append(row | {"note": notes.get(name)})
        if (unit, OURS, "training") not in seconds_of:
            continue
        for row in rows:
            size_, name, kind = key = (row["nodes"], row["contestant"], row["pass"])
            base = seconds_of[unit, MAPPED if name == MAPPED else OURS, kind] / unit
            row["time_per_node"] = seconds_of[key] / size_ / base if key in seconds_of else None
        yield rows, _panels(sizes, [*peers, MAPPED], seconds_of, unit)


def _mapped(size: int, setting: Setting, repeats: int) -> float:
    """Return the minimum time of a forward over features on disk."""
    module = SlotVirtualNode(setting.dim, setting.slots, setting.heads, integrate="residual")
    module = module.to(setting.device)
    check_stream(module, torch.randn(1009, setting.dim, device=setting.device), chunk=307)
    module = module.float().eval()

    def run() -> None:
        for _ in forward_stream(module, chunks):
            pass

    with tempfile.TemporaryDirectory() as folder:
        chunks = memory_map(Path(folder) / "features.npy", size, setting.dim, setting.device)
        return seconds({MAPPED: run}, min(repeats, 3), setting.device)[MAPPED].minimum


def _panels(
    sizes: Sequence[int], names: Sequence[str], times: dict[tuple[int, str, str], float], unit: int
) -> list[dict[str, Any]]:
    """Return panels of time against nodes, both passes, and of time per node, which is flat if the cost is linear."""
    base = times[unit, OURS, "training"]
    lines: list[dict[str, Any]] = []
    for name in names:
        for kind, words in (("training", "forward+backward"), ("forward", "forward")):
            y = [times[size, name, kind] / base if (size, name, kind) in times else None for size in sizes]
            if any(value is not None for value in y) and (kind == "training" or name in (OURS, MAPPED)):
                lines.append({"label": f"{name}, {words}", "y": y})
    per_node = [
        {**line, "y": [None if y is None else y * unit / size for y, size in zip(line["y"], sizes, strict=True)]}
        for line in lines
    ]
    of = f"slots, forward+backward, {unit:,} nodes = 1"
    common = {"x": list(sizes), "xlabel": "nodes", "log": "xy"}
    return [
        {**common, "lines": lines, "ylabel": "time", "title": f"Time of one graph ({of})"},
        {**common, "lines": per_node, "ylabel": "time per node", "title": f"Time per node ({of})"},
    ]


def memory_map(path: Path, num_nodes: int, dim: int, device: str = "cpu") -> Chunks:
    """Write random features to a file; return a function that iterates over it in chunks."""
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(num_nodes, dim))
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(min(CHUNK, num_nodes), dim, generator=generator).numpy()
    for start in range(0, num_nodes, CHUNK):
        features[start : start + CHUNK] = block[: num_nodes - start]
    features.flush()

    def chunks() -> Iterator[Tensor]:
        # Copy on write: torch requires writable memory, and nothing is written here.
        mapped = np.load(path, mmap_mode="c")
        for start in range(0, num_nodes, CHUNK):
            yield torch.from_numpy(mapped[start : start + CHUNK]).to(device)

    return chunks


@torch.no_grad()
def forward_stream(module: SlotVirtualNode, chunks: Chunks) -> Iterator[Tensor]:
    """Yield the new features, chunk by chunk; equal to ``module(x)`` on all nodes at once."""
    state = None
    for x in chunks():
        written = module.write(x)
        state = written if state is None else ops.merge(state, written)
    assert state is not None, "no nodes"
    memory = module.update(state, module.write.identity())
    assert module.read is not None, "a memory that nodes read"
    for x in chunks():
        yield module.integrate(x, module.read(x, memory, address=module.write.routes(x)), memory)


def check_stream(module: SlotVirtualNode, x: Tensor, chunk: int) -> float:
    """Compare the stream over chunks with all nodes at once, in float64; return the error."""
    module, x = module.double(), x.double()
    with torch.no_grad():
        whole = module(x)
    error = float((torch.cat(list(forward_stream(module, lambda: iter(x.split(chunk))))) - whole).abs().max())
    if not error <= TOLERANCE:
        raise WrongResult(f"bench: the stream differs from all nodes at once by {error:.3g}. Nothing was timed.")
    return error
