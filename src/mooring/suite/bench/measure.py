"""Time and peak memory of a call, in this process or in a separate one, and the lower bounds of both ops."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mooring.suite.bench.peers import get_peer
from mooring.suite.bench.shapes import Setting, get_shape

# A contestant whose first call takes this many seconds is timed in one round only: one digit of its ratio is enough.
PATIENCE = 4.0
# Names of glibc's mallopt(3).
M_TRIM_THRESHOLD, M_MMAP_MAX, NEVER = -1, -4, -1
# The bare products, and one copy of the features, which are timed with all contestants.
PRODUCTS, COPY = "floor: products", "floor: copy"
# Linux's status of this process, and the file that resets its peak memory.
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Timing(NamedTuple):
    """Seconds of one call. The minimum is reported, because noise only adds; median over minimum measures the noise."""

    minimum: float
    median: float


def seconds(functions: Mapping[str, Callable[[], object]], repeats: int, device: str = "cpu") -> dict[str, Timing]:
    """Time the functions in alternating rounds, so that a noisy moment affects all of them equally.

    A round is two calls; the second reuses the memory of the first. The very first call of each function is not
    counted, because it allocates memory from the system. The clock stops when the device has finished.
    """
    rounds = {name: repeats if _seconds(function, device) < PATIENCE else 1 for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats):
        for name, function in functions.items():
            if turn < rounds[name]:
                times[name] += [_seconds(function, device), _seconds(function, device)]
    return {name: Timing(min(values), statistics.median(values)) for name, values in times.items()}


def _seconds(function: Callable[[], object], device: str) -> float:
    synchronise = torch.cuda.synchronize if device == "cuda" else lambda: None
    synchronise()
    start = time.perf_counter()
    function()
    synchronise()
    return time.perf_counter() - start


def floor(num_nodes: int, setting: Setting, *, backward: bool) -> dict[str, Callable[[], object]]:
    """Return the lower bounds of a write and a read, timed with all contestants: bare matrix products, and one copy."""
    with torch.device(setting.device):
        x, out = torch.randn(num_nodes, setting.dim), torch.empty(num_nodes, setting.dim)
        products = (_folded if setting.folded else _projected)(x, out, setting, backward=backward)
    return {PRODUCTS: products, COPY: lambda: out.copy_(x)}


def _folded(x: Tensor, wide: Tensor, setting: Setting, *, backward: bool) -> Callable[[], object]:
    """Return the skinny products of write and read over all nodes, without graph boundaries.

    Write and read have two products each forward and four backward, none recomputed. Outputs are allocated beforehand,
    so that only the products are timed.
    """
    table, small = torch.randn(setting.rows, setting.dim), torch.empty(setting.rows, setting.dim)
    weights, scores = torch.rand(len(x), setting.rows), torch.empty(len(x), setting.rows)
    score, spread, collect = (x, table.t(), scores), (weights, table, wide), (weights.t(), x, small)
    products = [score, collect, score, spread]
    if backward:
        products += [score, spread, spread, collect]  # of the weights; of the keys and the values; of the queries
        products += [score, spread, collect, collect]  # of the weights; of the queries; of the keys and the values

    def run() -> None:
        for left, right, out in products:
            torch.mm(left, right, out=out)

    return run


def _projected(x: Tensor, wide: Tensor, setting: Setting, *, backward: bool) -> Callable[[], object]:
    """Return the products for large slots x heads, which first project nodes to keys, values and queries.

    Backward, each product has two of its own size.
    """
    weight, head_dim = torch.randn(setting.dim, setting.dim), setting.dim // setting.heads
    nodes, slots = torch.randn(setting.heads, len(x), head_dim), torch.randn(setting.heads, head_dim, setting.slots)
    scores, context = torch.empty(setting.heads, len(x), setting.slots), torch.empty_like(nodes)

    def run() -> None:
        for _ in range(2 * (3 if backward else 1)):  # write and read
            torch.mm(x, weight, out=wide)
            torch.mm(x, weight, out=wide)
            torch.bmm(nodes, slots, out=scores)
            torch.bmm(scores, slots.transpose(1, 2), out=context)

    return run


def step(forward: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor, *, backward: bool) -> Callable[[], object]:
    """Return a function that runs forward and backward as in a training step, or a forward without gradients."""
    grad: list[Tensor] = []

    def with_gradients() -> None:
        module.zero_grad(set_to_none=True)
        leaf = x.detach().requires_grad_()
        out = forward(leaf)
        if not grad:  # the output gradient belongs to the caller, in time and in memory
            grad.append(torch.ones_like(out))
        out.backward(grad[0])

    def without_gradients() -> None:
        with torch.no_grad():
            forward(x)

    return with_gradients if backward else without_gradients


def keep_freed_memory() -> bool:
    """Let this process keep freed memory, as a caching allocator does; return False without glibc.

    Otherwise a tensor of half a gigabyte is returned to the system after every pass and allocated again, page by page.
    On a virtual machine that can take longer than the pass and varies from moment to moment.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    # Allocate all blocks from the heap and never trim it.
    return bool(libc.mallopt(M_MMAP_MAX, 0)) and bool(libc.mallopt(M_TRIM_THRESHOLD, NEVER))


def run_in_new_process(
    module: str, function: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Call ``module.function(request)`` in a new process and return its output, one JSON value per line.

    Raises:
        RuntimeError: the process failed.
    """
    code = f"import json, sys; from {module} import {function}; {function}(json.loads(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(request)],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if done.returncode:
        why = " (killed, probably out of memory)" if done.returncode == -9 else ""
        raise RuntimeError(f"bench: {module}.{function} ended with {done.returncode}{why}: {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def extra_memory(peers: Sequence[str], shape: str, setting: Setting) -> dict[str, float]:
    """Return the extra peak memory of a training call by peer, in multiples of input + output + input gradient.

    Extra is the memory that the call adds to its caller's input and output gradient. The minimum, output and input
    gradient alone, is two thirds.
    """
    # Freed blocks above a megabyte return to the system at once, so that no reuse is hidden.
    environment = {"OMP_NUM_THREADS": "1"} | dict.fromkeys(
        ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**20)
    )
    request = {"peers": list(peers), "shape": shape, "setting": asdict(setting)}
    peaks = run_in_new_process("mooring.suite.bench.measure", "print_memory", request, environment)
    return {peer: peak["extra"] / peak["tensors"] for peer, peak in zip(peers, peaks, strict=True)}


def print_memory(request: Mapping[str, Any]) -> None:
    """Print the memory of each peer, each measured in a fork, so that no memory is left for the next."""
    torch.set_num_threads(1)  # before any work: a process with threads must not fork
    setting = Setting(**request["setting"])
    for name in request["peers"]:
        child = os.fork()
        if child == 0:
            print(json.dumps(_peak_memory(name, request["shape"], setting)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit(f"{name!r} on {request['shape']}: its process ended with status {status}")


def _peak_memory(name: str, shape: str, setting: Setting) -> dict[str, int]:
    peer = get_peer(name)
    module = peer.place(setting)
    forward = peer.call(module)
    batch = get_shape(shape).batch().to(setting.device)
    num_graphs, num_nodes = int(batch[-1]) + 1, batch.numel()
    few = batch[: min(num_nodes, 1000)]
    x = torch.randn(num_nodes, setting.dim, dtype=peer.dtype, device=setting.device)

    # Warm up: code, thread pools and parameter gradients do not belong to the call, nor does the caller's memory.
    step(lambda part: forward(part, few, num_graphs), module, x[: few.numel()], backward=True)()
    rows = num_graphs if peer.readout else num_nodes
    grad = torch.ones(rows, setting.dim, dtype=peer.dtype, device=setting.device)

    def run() -> None:
        forward(x.requires_grad_(), batch, num_graphs).backward(grad)

    return {"extra": growth(run, setting.device), "tensors": (2 * num_nodes + rows) * peer.dtype.itemsize * setting.dim}


def growth(run: Callable[[], object], device: str = "cpu") -> int:
    """Return the largest growth of memory in bytes during ``run``: torch's allocations on a GPU, else resident memory.

    ``ru_maxrss`` alone is not enough: a process inherits it from its parent, and it never falls. Linux has a peak per
    address space that can be reset; other systems have only the inherited one.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - allocated
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
