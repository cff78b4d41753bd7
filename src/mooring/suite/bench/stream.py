"""A memory's forward over features on disk: one pass to write, one to read, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.suite.bench.gate import TOLERANCE, WrongResult

CHUNK = 65_536

Chunks = Callable[[], Iterator[Tensor]]


def memory_map(path: Path, num_nodes: int, dim: int) -> Chunks:
    """Random features of so many nodes in a file -> passes over it, in chunks that are read when they are asked for."""
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(num_nodes, dim))
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(min(CHUNK, num_nodes), dim, generator=generator).numpy()
    for start in range(0, num_nodes, CHUNK):
        features[start : start + CHUNK] = block[: num_nodes - start]
    features.flush()

    def chunks() -> Iterator[Tensor]:
        # Copy on write: torch wants memory it may write to, and nothing here does.
        mapped = np.load(path, mmap_mode="c")
        for start in range(0, num_nodes, CHUNK):
            yield torch.from_numpy(mapped[start : start + CHUNK])

    return chunks


@torch.no_grad()
def forward_stream(module: SlotVirtualNode, chunks: Chunks) -> Iterator[Tensor]:
    """The new features, chunk by chunk; equal to ``module(x)`` on all of them at once."""
    state = None
    for x in chunks():
        written = module.write(x)
        state = written if state is None else ops.merge(state, written)
    assert state is not None, "no nodes"
    memory = module.update(state, module.write.slot)
    assert module.read is not None, "a memory that nodes read"
    for x in chunks():
        yield module.integrate(x, module.read(x, memory), memory)


def check_stream(module: SlotVirtualNode, x: Tensor, chunk: int) -> float:
    """Compare the stream over chunks with all nodes at once, in float64; return the error."""
    module, x = module.double(), x.double()
    with torch.no_grad():
        whole = module(x)
    error = float((torch.cat(list(forward_stream(module, lambda: iter(x.split(chunk))))) - whole).abs().max())
    if not error <= TOLERANCE:
        raise WrongResult(f"bench: the stream differs from all nodes at once by {error:.3g}. Nothing was timed.")
    return error
