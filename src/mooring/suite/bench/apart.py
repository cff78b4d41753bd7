"""Times of contestants in a process of its own, which starts with an empty heap: ``python -m mooring.suite.bench.apart``.

A process that keeps what it frees ends up with holes in which the next larger graph does not fit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch

from mooring.suite.bench.allocator import keep_freed_memory
from mooring.suite.bench.compare import time_peers
from mooring.suite.bench.measure import Timing
from mooring.suite.bench.process import ask
from mooring.suite.bench.setting import Setting
from mooring.suite.bench.shapes import get_shape


def time_peers_apart(
    shape: str, peers: Sequence[str], setting: Setting, repeats: int
) -> tuple[dict[str, dict[str, Timing]], dict[str, str]]:
    """As :func:`~mooring.suite.bench.compare.time_peers`, with the threads of this process."""
    request = {"shape": shape, "peers": list(peers), "setting": asdict(setting), "repeats": repeats}
    ((timings, notes),) = ask("mooring.suite.bench.apart", {**request, "threads": torch.get_num_threads()})
    return {kind: {name: Timing(*one) for name, one in found.items()} for kind, found in timings.items()}, notes


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    keep_freed_memory()
    batch = get_shape(asked["shape"]).batch()
    print(json.dumps(time_peers(batch, asked["peers"], Setting(**asked["setting"]), asked["repeats"])))
