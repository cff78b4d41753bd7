"""The default module with and without C++ operators, beside a local layer and PyG's induced attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mooring.suite.bench.batches import DEFAULT
from mooring.suite.bench.shapes import Setting, get_shape

# Shape -> width and slots.
SIZES = {
    "molecules-64": (64, 8),
    "molecules-512": (128, 8),
    "peptides": (128, 16),
    "skewed": (128, 16),
    "large": (128, 16),
}
THREADS = (1, 2)
ALONE = "slots, PyTorch alone"
PEERS_OF_DEFAULT = (DEFAULT, ALONE, "GINEConv", "ISAB")


def compare_default(shapes: Sequence[str], peers: Sequence[str], base: Setting, repeats: int) -> list[dict[str, Any]]:
    """Return one row per batch and number of threads: training times of the default module, both ways, and of peers.

    The default module uses the C++ operators if they are installed, else both ways are the same.
    """
    from mooring.suite.bench.compare import time_peers

    before, rows = torch.get_num_threads(), []
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            for shape in shapes:
                width, slots = SIZES.get(shape, (base.dim, base.slots))
                batch = get_shape(shape).batch()
                times = time_peers(batch, peers, replace(base, dim=width, slots=slots), repeats)[0]["training"]
                row: dict[str, Any] = {"shape": shape, "nodes": batch.numel(), "width": width, "slots": slots}
                row["threads"] = threads
                for ours, words in ((DEFAULT, "default"), (ALONE, "PyTorch alone")):
                    local, peer, own = (times[name].minimum for name in ("GINEConv", "ISAB", ours))
                    row[f"{words} over GINEConv"], row[f"ISAB over {words}"] = own / local, peer / own
                row["noise"] = times[DEFAULT].median / times[DEFAULT].minimum
                rows.append(row)
    finally:
        torch.set_num_threads(before)
    return rows
