"""Peak memory of calls, each in a process of its own: ``python -m mooring.suite.bench.peak REQUEST``."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mooring.suite.bench.measure import step
from mooring.suite.bench.process import ask
from mooring.suite.bench.setting import Setting
from mooring.suite.bench.shapes import get_shape

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def extra_memory(peers: Sequence[str], shape: str, setting: Setting) -> dict[str, float]:
    """Extra peak memory of a forward and backward by peer, in multiples of input + output + input gradient.

    Extra is what the call adds to what its caller holds, the input and the gradient of the output. So output and
    input gradient alone, the least there can be, are two thirds.
    """
    # Blocks above a megabyte go straight back to the system when freed, so that none is reused unseen.
    environment = {"OMP_NUM_THREADS": "1"} | dict.fromkeys(
        ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**20)
    )
    request = {"peers": list(peers), "shape": shape, "setting": asdict(setting)}
    found = ask("mooring.suite.bench.peak", request, environment)
    return {peer: one["extra"] / one["tensors"] for peer, one in zip(peers, found, strict=True)}


def growth(run: Callable[[], object]) -> int:
    """Bytes by which resident memory rises at most while ``run`` runs.

    ``ru_maxrss`` alone would not do: a process inherits it from the one that started it, and it never falls. Linux
    keeps a mark for each address space that can be put back; elsewhere the inherited one is all there is.
    """
    if not CLEAR.exists():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run()
        unit = 1 if sys.platform == "darwin" else 1024
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    CLEAR.write_text("5")
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} in {STATUS}")


def _measure(peer: str, shape: str, setting: Setting) -> dict[str, int]:
    # Imported here: the peers import this package's siblings, and a user of `growth` needs none of them.
    from mooring.suite.bench.peers import get_peer

    contestant = get_peer(peer)
    module = contestant.build(setting).to(contestant.dtype)
    forward = contestant.call(module)
    batch = get_shape(shape).batch()
    num_graphs, num_nodes = int(batch[-1]) + 1, batch.numel()
    few = batch[: min(num_nodes, 1000)]
    x = torch.randn(num_nodes, setting.dim, dtype=contestant.dtype)

    # Code, thread pools and parameter gradients are not the call's; nor is what the caller holds.
    step(lambda part: forward(part, few, num_graphs), module, x[: few.numel()], backward=True)()
    slope = torch.ones(contestant.output_rows(num_nodes, num_graphs), setting.dim, dtype=contestant.dtype)

    def run() -> None:
        forward(x.requires_grad_(), batch, num_graphs).backward(slope)

    extra = growth(run)
    size = contestant.dtype.itemsize * setting.dim
    return {"extra": extra, "tensors": (2 * num_nodes + slope.size(0)) * size}


def _measure_apart(peer: str, shape: str, setting: Setting) -> None:
    """Measure and print in a child, so that nothing of one peer is left for the next; the imports are made once."""
    child = os.fork()
    if child == 0:
        print(json.dumps(_measure(peer, shape, setting)), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{peer!r} on {shape}: its process ended with status {status}")


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)  # before any work: a process with threads must not fork
    for name in asked["peers"]:
        _measure_apart(name, asked["shape"], Setting(**asked["setting"]))
