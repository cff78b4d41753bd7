"""Cost against slots, heads and width, one varied at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mooring.suite.bench.compare import Row, floor_seconds, time_peers
from mooring.suite.bench.peers import OURS
from mooring.suite.bench.setting import Setting
from mooring.suite.bench.shapes import get_shape

VARIED: dict[str, tuple[int, ...]] = {"slots": (4, 16, 64, 256), "heads": (1, 2, 4, 8), "dim": (64, 128, 256, 512)}


def settings(base: Setting) -> list[Setting]:
    """The base and its neighbours, each once."""
    around = [replace(base, **{field: value}) for field, values in VARIED.items() for value in values]
    return list(dict.fromkeys([base, *around]))


def sizes_sweep(shape: str, peers: Sequence[str], base: Setting, repeats: int) -> list[Row]:
    """One row for each setting: the slots over their floor, and each peer over the slots."""
    rows: list[Row] = []
    batch = get_shape(shape).batch()
    for setting in settings(base):
        timings, _ = time_peers(batch, peers, setting, repeats)
        row: Row = {"shape": shape, "slots": setting.slots, "heads": setting.heads, "dim": setting.dim}
        row["order"] = "folded" if setting.folded else "projected"
        for kind, found in timings.items():
            row[f"{kind}_over_floor"] = found[OURS].least / floor_seconds(found)
        for name in peers:
            if name != OURS:
                times = timings["training"]
                row[f"{name}_over_slots"] = times[name].least / times[OURS].least if name in times else None
        rows.append(row)
    return rows
