"""Every contestant on one batch: time as multiples of the floor and of the slots, and extra memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring.suite.bench import floor
from mooring.suite.bench.gate import check_oracle
from mooring.suite.bench.measure import Timing, seconds, step
from mooring.suite.bench.peak import extra_memory
from mooring.suite.bench.peers import OURS, Forward, Peer, get_peer
from mooring.suite.bench.setting import Setting
from mooring.suite.bench.shapes import get_shape

Row = dict[str, Any]


def compare(shape: str, peers: Sequence[str], setting: Setting, repeats: int, memory: bool) -> list[Row]:
    """One row for each contestant: times over the floor and over the slots, and how noisy the training's were."""
    batch = get_shape(shape).batch()
    # Memory first: once it has timed the peers, this process keeps as much as the largest of them needed.
    measured = [name for name in peers if memory and _has_memory(get_peer(name), batch, setting)]
    extra = extra_memory(measured, shape, setting) if measured else {}
    timings, notes = time_peers(batch, peers, setting, repeats)
    rows: list[Row] = []
    for name in [floor.PRODUCTS, floor.COPY, *peers]:
        row: Row = {"shape": shape, "contestant": name}
        for kind, found in timings.items():
            row[f"{kind}_over_floor"] = found[name].least / floor_seconds(found) if name in found else None
        for kind, found in timings.items():
            row[f"{kind}_over_slots"] = found[name].least / found[OURS].least if name in found else None
        trained = timings["training"].get(name)
        row["noise"] = trained.median / trained.least if trained else None
        row["extra_memory"] = extra.get(name)
        row["note"] = notes.get(name)
        rows.append(row)
    return rows


def time_peers(
    batch: Tensor, peers: Sequence[str], setting: Setting, repeats: int
) -> tuple[dict[str, dict[str, Timing]], dict[str, str]]:
    """Times of ``forward`` and ``training`` by contestant, floor included, and why some are missing."""
    check_oracle(batch)
    torch.compiler.reset()  # compiled contestants of earlier shapes would use up the compiler's limit of variants
    num_graphs = int(batch[-1]) + 1
    x = torch.randn(batch.numel(), setting.dim)
    notes, passes = {}, {"forward": False, "training": True}
    functions: dict[str, dict[str, Callable[[], object]]] = {
        kind: dict(floor.contestants(batch.numel(), setting, backward=backward)) for kind, backward in passes.items()
    }
    for name in peers:
        peer = get_peer(name)
        notes[name] = _too_large(peer, batch, setting)
        if notes[name]:
            continue
        module = peer.build(setting).to(peer.dtype).train()
        forward = partial(_call, peer.call(module), batch, num_graphs)
        steps = {kind: step(forward, module, x.to(peer.dtype), backward=backward) for kind, backward in passes.items()}
        notes[name] = _refusal(peer, steps["forward"])
        if notes[name]:
            continue
        notes[name] = peer.no_backward
        functions["forward"][name] = steps["forward"]
        if not peer.no_backward:
            functions["training"][name] = steps["training"]
    timings = {kind: seconds(chosen, repeats) for kind, chosen in functions.items()}
    return timings, {name: note for name, note in notes.items() if note}


def floor_seconds(timings: dict[str, Timing]) -> float:
    """The floor: the bare products and one copy of the features."""
    return timings[floor.PRODUCTS].least + timings[floor.COPY].least


def _call(forward: Forward, batch: Tensor, num_graphs: int, x: Tensor) -> Tensor:
    return forward(x, batch, num_graphs)


def _too_large(peer: Peer, batch: Tensor, setting: Setting) -> str:
    """Why the peer is left out on this batch, or nothing."""
    return peer.too_large(int(torch.bincount(batch).max()), int(batch[-1]) + 1, setting)


def _has_memory(peer: Peer, batch: Tensor, setting: Setting) -> bool:
    """Whether the peak of a training call is the peer's own and can be had."""
    return not (peer.compiled or peer.no_backward or _too_large(peer, batch, setting))


def _refusal(peer: Peer, run: Callable[[], object]) -> str:
    """What a compiled contestant says where its compiler does not run; any other's error is an error."""
    if not peer.compiled:
        return ""
    try:
        run()
    except Exception as error:  # compilers raise anything
        return f"left out: {str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__}"
    return ""
