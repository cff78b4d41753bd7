"""Comparison of contestants on one batch: checked against the oracle, then timed against the floor and the slots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState, reference
from mooring.suite.bench.measure import (
    COPY,
    PRODUCTS,
    Timing,
    extra_memory,
    floor,
    keep_freed_memory,
    run_in_new_process,
    seconds,
    step,
)
from mooring.suite.bench.peers import ALONE, DEFAULT, LOCAL, OURS, Forward, Peer, get_peer
from mooring.suite.bench.shapes import Setting, get_shape

Row = dict[str, Any]
TOLERANCE = 1e-10
# Nodes for the oracle, which is a Python loop, and for the plain formula, which must cover several tiles.
FEW, MANY = 300, 20_000
# Values of a sweep over sizes, which varies one size at a time.
VARIED: dict[str, tuple[int, ...]] = {"slots": (4, 16, 64, 256), "heads": (1, 2, 4, 8), "dim": (64, 128, 256, 512)}
# Widths and slots of ordinary batches of molecules, and threads of the sweeps that vary them.
WIDTHS, SLOTS, THREADS = (64, 128), 8, (1, 2)
# Width and slots of each shape in the comparison of the default module.
SIZES = {
    "molecules-64": (64, 8),
    "molecules-512": (128, 8),
    "peptides": (128, 16),
    "skewed": (128, 16),
    "large": (128, 16),
}


class WrongResult(ValueError):
    """Error of a fast path that does not agree with the oracle."""


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


def compare_batches(shape: str, peers: Sequence[str], base: Setting, repeats: int) -> list[Row]:
    """Return one row per width and number of threads: training times relative to the default module."""
    batch = get_shape(shape).batch()
    rows = []
    for threads in _each_number_of_threads():
        for width in WIDTHS:
            times = time_peers(batch, peers, replace(base, dim=width, slots=SLOTS), repeats)[0]["training"]
            ours = times[DEFAULT]
            row: Row = {"graphs": int(batch[-1]) + 1, "nodes": batch.numel(), "width": width, "threads": threads}
            row |= {f"{name}_over_slots": times[name].minimum / ours.minimum for name in peers if name != DEFAULT}
            rows.append(row | {"noise": ours.median / ours.minimum})
    return rows


def compare_default(shape: str, peers: Sequence[str], base: Setting, repeats: int) -> list[Row]:
    """Return one row per number of threads: training times of the default module and of peers.

    The default module uses the C++ operators if they are installed, and is timed without them too.
    """
    batch = get_shape(shape).batch()
    width, slots = SIZES.get(shape, (base.dim, base.slots))
    rows = []
    for threads in _each_number_of_threads():
        times = time_peers(batch, peers, replace(base, dim=width, slots=slots), repeats)[0]["training"]
        row: Row = {"shape": shape, "nodes": batch.numel(), "width": width, "slots": slots, "threads": threads}
        for name, words in ((DEFAULT, "default"), (ALONE, "PyTorch alone")):
            row[f"{words} over {LOCAL}"] = times[name].minimum / times[LOCAL].minimum
            row[f"ISAB over {words}"] = times["ISAB"].minimum / times[name].minimum
        rows.append(row | {"noise": times[DEFAULT].median / times[DEFAULT].minimum})
    return rows


def _each_number_of_threads() -> Iterator[int]:
    before = torch.get_num_threads()
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            yield threads
    finally:
        torch.set_num_threads(before)


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
    functions = {kind: floor(batch.numel(), setting, backward=backward) for kind, backward in passes.items()}
    for name in peers:
        peer = get_peer(name)
        notes[name] = peer.too_large(batch, setting)
        if notes[name]:
            continue
        module = peer.place(setting).train()
        forward = partial(_call, peer.call(module), batch, num_graphs)
        steps = {kind: step(forward, module, x.to(peer.dtype), backward=backward) for kind, backward in passes.items()}
        if peer.compiled:
            try:
                steps["forward"]()
            except Exception as error:  # compilers raise all kinds of errors
                first, *_ = [*str(error).strip().splitlines(), type(error).__name__]
                notes[name] = f"left out: {first[:200]}"
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


def _has_memory(peer: Peer, batch: Tensor, setting: Setting) -> bool:
    """Return whether the peak of a training call can be measured and belongs to the peer alone."""
    return not (peer.compiled or peer.no_backward(setting.device) or peer.too_large(batch, setting))


def check_oracle(batch: Tensor) -> float:
    """Compare values and gradients of write and read with slow references; return the largest error.

    The oracle runs on a thinned copy of the batch, in which every graph keeps its share; the plain formula over all
    nodes at once runs on the first nodes. Both run on the device of the batch.
    """
    thinned = batch[:: max(batch.numel() // FEW, 1)].unique(return_inverse=True)[1]
    error = max(_compare(thinned, reference), _compare(batch[:MANY], _Plain))
    if not error <= TOLERANCE:
        raise WrongResult(
            f"bench: write or read differs from the oracle by {error:.3g}, above {TOLERANCE:g}. "
            "Nothing was timed; run the tests of mooring.ops."
        )
    return error


class _Plain:
    """Plain formulas over all nodes at once, with torch's autograd."""

    @staticmethod
    def write(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> SlotState:
        scores = torch.einsum("mhd,nhd->nmh", query, key.expand(-1, query.size(1), -1))
        graphs = int(index.max()) + 1
        where = index[:, None, None].expand_as(scores)
        top = scores.new_full((graphs, *scores.shape[1:]), float("-inf"))
        top = top.scatter_reduce(0, where, scores.detach(), "amax")
        masses = (scores - top[index]).exp()
        mass = torch.zeros_like(top).index_add(0, index, masses)
        parts = torch.einsum("nmh,nhd->nmhd", masses, value.expand(-1, query.size(1), -1))
        total = parts.new_zeros(graphs, *parts.shape[1:]).index_add(0, index, parts)
        return SlotState(total / mass.unsqueeze(-1), mass.log() + top)

    @staticmethod
    def read(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> Tensor:
        weights = torch.einsum("nhd,mhd->nmh", query, key).softmax(dim=1)
        return torch.einsum("nmh,nmhd->nhd", weights, value[index])


def _compare(index: Tensor, slow: object) -> float:
    generator, heads, dim = torch.Generator().manual_seed(0), 2, 5
    shapes = (index.numel(), 1, dim), (3, heads, dim), (int(index.max()) + 1, 3, heads, dim)
    x, query, grad = (torch.randn(shape, dtype=torch.float64, generator=generator).to(index.device) for shape in shapes)
    results = []
    for module in (ops, slow):
        inputs = [x.clone().requires_grad_(), query.clone().requires_grad_()]
        state = module.write(inputs[1], inputs[0], inputs[0], index)  # type: ignore[attr-defined]
        context = module.read(inputs[0].expand(-1, heads, -1), inputs[1], state.content, index)  # type: ignore[attr-defined]
        # A mean, so that gradients have the same size for any number of nodes.
        loss = (state.content * grad).mean() + state.log_mass.mean() + context.square().mean()
        results.append([state.content, state.log_mass, context, *torch.autograd.grad(loss, inputs)])
    return max(float((fast - plain).detach().abs().max()) for fast, plain in zip(*results, strict=True))
