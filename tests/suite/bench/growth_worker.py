"""Growth of this process's memory in two known cases, as JSON."""

from __future__ import annotations

import json

import torch

from mooring.suite.bench.measure import growth

MEGABYTE = 2**20


def touch(megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * MEGABYTE, dtype=torch.uint8)


def rise_and_fall() -> None:
    first = touch(37)
    del first
    kept = [touch(29), touch(31)]
    kept.clear()
    torch.empty(101 * MEGABYTE, dtype=torch.uint8)  # never touched


if __name__ == "__main__":
    rise_and_fall()
    highest = growth(rise_and_fall)
    touch(211)
    print(json.dumps({"highest": highest, "after a higher peak": growth(lambda: touch(53))}))
