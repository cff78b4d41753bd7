"""sec:background.cost: a write and a read take ``O(n M d)`` operations, counted; dense attention takes ``O(n^2 d)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mooring.counter import OperationCounter
from mooring.ops import read, write
from mooring.theory.claim import Evidence, Series

Layer = Callable[[Tensor, Tensor], Tensor]
"""Maps node features [n, d] and slot states [M, d] to node features [n, d]."""


def slot_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Write to the slots and read from them, with the library's own operators."""
    state = write(slots.unsqueeze(1), nodes.unsqueeze(1), nodes.unsqueeze(1))
    return read(nodes.unsqueeze(1), slots.unsqueeze(1), state.content)[:, 0]


def dense_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Self-attention between all nodes; the slots are not used."""
    del slots
    return (nodes @ nodes.T).softmax(dim=1) @ nodes


def count(layer: Layer, n: int, slots: int, dim: int) -> OperationCounter:
    """The operations of one call. They depend on sizes only, so the features may be zero."""
    with OperationCounter() as counter:
        layer(torch.zeros(n, dim), torch.zeros(slots, dim))
    return counter


def exponent(sizes: Sequence[int], counts: Sequence[int]) -> float:
    """The slope of log count over log size, by least squares."""
    x = torch.tensor([math.log(size) for size in sizes], dtype=torch.float64)
    y = torch.tensor([math.log(count) for count in counts], dtype=torch.float64)
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def check_cost(layer: Layer, instances: int, generator: torch.Generator) -> Evidence:
    """Multiply-adds grow with exponent 1 in n, M and d, pairs in n and M. ``instances`` is the number of doublings."""
    del generator
    base = {"n": 96, "slots": 8, "dim": 16}
    worst, examined, slopes = 0.0, 0, []
    for axis, start in base.items():
        sizes = [start * 2**step for step in range(instances + 1)]
        counters = [count(layer, **{**base, axis: size}) for size in sizes]
        examined += len(sizes)
        work = exponent(sizes, [counter.multiply_adds for counter in counters])
        pairs = exponent(sizes, [counter.pairs for counter in counters])
        slopes.append(f"{axis}: {work:.3f}, pairs {pairs:.3f}")
        # One pair costs one exponential whatever the width, so pairs have exponent 0 in d.
        worst = max(worst, abs(work - 1), abs(pairs - (axis != "dim")))
    return Evidence(worst < 0.01, worst, examined, "exponents " + "; ".join(slopes), (_growth_series(),))


def _growth_series() -> Series:
    sizes, slots, dim = [64 * 2**step for step in range(6)], 16, 32
    return Series(
        title=f"Multiply-adds of one global layer, M={slots}, d={dim}, counted",
        x=sizes,
        lines=(
            ("write + read", [count(slot_layer, n, slots, dim).multiply_adds for n in sizes]),
            ("dense attention", [count(dense_layer, n, slots, dim).multiply_adds for n in sizes]),
        ),
        xlabel="nodes n",
        ylabel="multiply-adds",
        log="xy",
    )
