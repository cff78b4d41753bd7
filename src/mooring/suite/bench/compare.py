"""Comparison of all contestants on one batch: time relative to the floor and to the slots, and extra memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring.suite.bench.gate import check_oracle
from mooring.suite.bench.measure import Timing, extra_memory, keep_freed_memory, run_in_new_process, seconds, step
from mooring.suite.bench.peers import OURS, Forward, Peer, get_peer
from mooring.suite.bench.shapes import Setting, get_shape

Row = dict[str, Any]
Run = Callable[[], None]
PRODUCTS, COPY = "floor: products", "floor: copy"

# Values of a sweep over sizes, which varies one size at a time.
VARIED: dict[str, tuple[int, ...]] = {"slots": (4, 16, 64, 256), "heads": (1, 2, 4, 8), "dim": (64, 128, 256, 512)}


def compare(shape: str, peers: Sequence[str], setting: Setting, repeats: int, memory: bool) -> list[Row]:
    """Return one row per contestant: times relative to the floor and to the slots, and the noise of training times."""
    batch = get_shape(shape).batch()
    # Measure memory first: after timing, this process keeps as much memory as the largest peer needed.
    measured = [name for name in peers if memory and _has_memory(get_peer(name), batch, setting)]
    extra = extra_memory(measured, shape, setting) if measured else {}
    timings, notes = time_peers(batch, peers, setting, repeats)
    rows: list[Row] = []
    for name in [PRODUCTS, COPY, *peers]:
        row: Row = {"shape": shape, "contestant": name}
        for kind, times in timings.items():
            row[f"{kind}_over_floor"] = times[name].minimum / floor_seconds(times) if name in times else None
        for kind, times in timings.items():
            row[f"{kind}_over_slots"] = times[name].minimum / times[OURS].minimum if name in times else None
        trained = timings["training"].get(name)
        row["noise"] = trained.median / trained.minimum if trained else None
        row["extra_memory"] = extra.get(name)
        row["note"] = notes.get(name)
        rows.append(row)
    return rows


def compare_sizes(shape: str, peers: Sequence[str], base: Setting, repeats: int) -> list[Row]:
    """Return one row per setting around the base: the slots relative to their floor, and peers to the slots."""
    rows: list[Row] = []
    batch = get_shape(shape).batch()
    for setting in settings(base):
        timings, _ = time_peers(batch, peers, setting, repeats)
        row: Row = {"shape": shape, "slots": setting.slots, "heads": setting.heads, "dim": setting.dim}
        row["order"] = "folded" if setting.folded else "projected"
        for kind, times in timings.items():
            row[f"{kind}_over_floor"] = times[OURS].minimum / floor_seconds(times)
        for name in peers:
            if name != OURS:
                times = timings["training"]
                row[f"{name}_over_slots"] = times[name].minimum / times[OURS].minimum if name in times else None
        rows.append(row)
    return rows


def settings(base: Setting) -> list[Setting]:
    """Return the base and its neighbours, each once: slots, heads and width vary one at a time."""
    around = [Setting(**asdict(base) | {field: value}) for field, values in VARIED.items() for value in values]
    return list(dict.fromkeys([base, *around]))


def time_peers(
    batch: Tensor, peers: Sequence[str], setting: Setting, repeats: int
) -> tuple[dict[str, dict[str, Timing]], dict[str, str]]:
    """Time ``forward`` and ``training`` of each contestant and the floor; also return reasons for missing times."""
    batch = batch.to(setting.device)
    check_oracle(batch)
    torch.compiler.reset()  # earlier shapes would exhaust the compiler's limit of variants
    num_graphs = int(batch[-1]) + 1
    x = torch.randn(batch.numel(), setting.dim, device=setting.device)
    notes, passes = {}, {"forward": False, "training": True}
    functions: dict[str, dict[str, Callable[[], object]]] = {
        kind: dict(floor(batch.numel(), setting, backward=backward)) for kind, backward in passes.items()
    }
    for name in peers:
        peer = get_peer(name)
        notes[name] = _too_large(peer, batch, setting)
        if notes[name]:
            continue
        module = peer.place(setting).train()
        forward = partial(_call, peer.call(module), batch, num_graphs)
        steps = {kind: step(forward, module, x.to(peer.dtype), backward=backward) for kind, backward in passes.items()}
        notes[name] = _compiler_error(peer, steps["forward"])
        if notes[name]:
            continue
        notes[name] = peer.no_backward(setting.device)
        functions["forward"][name] = steps["forward"]
        if not notes[name]:
            functions["training"][name] = steps["training"]
    timings = {kind: seconds(chosen, repeats, setting.device) for kind, chosen in functions.items()}
    return timings, {name: note for name, note in notes.items() if note}


def time_peers_in_new_process(
    shape: str, peers: Sequence[str], setting: Setting, repeats: int
) -> tuple[dict[str, dict[str, Timing]], dict[str, str]]:
    """Run :func:`time_peers` in a new process with an empty heap and the same number of threads.

    A process that keeps freed memory fragments it into holes that are too small for the next larger graph.
    """
    request = {"shape": shape, "peers": list(peers), "setting": asdict(setting), "repeats": repeats}
    ((timings, notes),) = run_in_new_process(
        "mooring.suite.bench.compare", "print_times", {**request, "threads": torch.get_num_threads()}
    )
    return {kind: {name: Timing(*pair) for name, pair in times.items()} for kind, times in timings.items()}, notes


def print_times(request: Mapping[str, Any]) -> None:
    """Time the peers of a request and print the timings and notes as JSON."""
    torch.set_num_threads(request["threads"])
    keep_freed_memory()
    batch, setting = get_shape(request["shape"]).batch(), Setting(**request["setting"])
    print(json.dumps(time_peers(batch, request["peers"], setting, request["repeats"])))


def floor_seconds(timings: Mapping[str, Timing]) -> float:
    """Return the time of the floor: the bare products and one copy of the features."""
    return timings[PRODUCTS].minimum + timings[COPY].minimum


def _call(forward: Forward, batch: Tensor, num_graphs: int, x: Tensor) -> Tensor:
    return forward(x, batch, num_graphs)


def _too_large(peer: Peer, batch: Tensor, setting: Setting) -> str:
    """Return why the peer is omitted on this batch, or an empty string."""
    return peer.too_large(int(torch.bincount(batch).max()), int(batch[-1]) + 1, setting)


def _has_memory(peer: Peer, batch: Tensor, setting: Setting) -> bool:
    """Return whether the peak of a training call can be measured and belongs to the peer alone."""
    return not (peer.compiled or peer.no_backward(setting.device) or _too_large(peer, batch, setting))


def _compiler_error(peer: Peer, run: Callable[[], object]) -> str:
    """Return the message of a compiled contestant whose compiler does not work here; raise any other error."""
    if not peer.compiled:
        return ""
    try:
        run()
    except Exception as error:  # compilers raise all kinds of errors
        return f"left out: {str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__}"
    return ""


def floor(num_nodes: int, setting: Setting, *, backward: bool) -> dict[str, Run]:
    """Return the lower bounds of a write and a read, timed with all contestants: bare matrix products, and one copy."""
    products = folded if setting.folded else projected
    return {PRODUCTS: products(num_nodes, setting, backward=backward), COPY: copy(num_nodes, setting)}


def folded(num_nodes: int, setting: Setting, *, backward: bool) -> Run:
    """Return the skinny products of write and read over all nodes, without graph boundaries.

    Write and read have two products each forward and four backward, none recomputed. Outputs are allocated beforehand,
    so that only the products are timed.
    """
    node_shape, slot_shape, dim = (num_nodes, setting.rows), (setting.rows, setting.dim), setting.dim
    with torch.device(setting.device):
        x, table = torch.randn(num_nodes, dim), torch.randn(slot_shape)
        weights, scores = torch.rand(node_shape), torch.empty(node_shape)
        wide, small = torch.empty(num_nodes, dim), torch.empty(slot_shape)

    def score() -> None:
        torch.mm(x, table.t(), out=scores)

    def spread() -> None:
        torch.mm(weights, table, out=wide)

    def collect() -> None:
        torch.mm(weights.t(), x, out=small)

    write, read = [score, collect], [score, spread]
    if backward:
        write += [score, spread, spread, collect]  # of the weights; of the keys and the values; of the queries
        read += [score, spread, collect, collect]  # of the weights; of the queries; of the keys and the values

    def run() -> None:
        for product in (*write, *read):
            product()

    return run


def projected(num_nodes: int, setting: Setting, *, backward: bool) -> Run:
    """Return the products for large slots x heads, which first project nodes to keys, values and queries.

    Backward, each product has two of its own size.
    """
    head_dim = setting.dim // setting.heads
    with torch.device(setting.device):
        x, weight = torch.randn(num_nodes, setting.dim), torch.randn(setting.dim, setting.dim)
        wide = torch.empty(num_nodes, setting.dim)
        nodes = torch.randn(setting.heads, num_nodes, head_dim)
        slots = torch.randn(setting.heads, head_dim, setting.slots)
        scores = torch.empty(setting.heads, num_nodes, setting.slots)
        context = torch.empty(setting.heads, num_nodes, head_dim)

    def run() -> None:
        for _ in range(3 if backward else 1):
            for _ in ("write", "read"):
                for _ in ("in", "out"):
                    torch.mm(x, weight, out=wide)
                torch.bmm(nodes, slots, out=scores)
                torch.bmm(scores, slots.transpose(1, 2), out=context)

    return run


def copy(num_nodes: int, setting: Setting) -> Run:
    """Return one copy of the features."""
    with torch.device(setting.device):
        x, out = torch.randn(num_nodes, setting.dim), torch.empty(num_nodes, setting.dim)

    def run() -> None:
        out.copy_(x)

    return run
