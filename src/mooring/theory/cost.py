"""Counted operations of sec:background.cost: ``O(n M d)`` for a write and a read, ``O(n^2 d)`` for dense attention.

sec:discussion.cost: a whole layer, i.e. messages along edges and a SlotVirtualNode with FiLM, takes
``O(|E| d + n d^2 + n M d)``, also with ``M = sqrt(n)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from mooring.counter import OperationCounter
from mooring.nn import SlotVirtualNode
from mooring.ops import read, write
from mooring.theory.claim import Evidence, Series

Layer = Callable[[Tensor, Tensor], Tensor]
"""Maps node features [n, d] and slot states [M, d] to node features [n, d]."""


def slot_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Write to the slots and read from them, using the library's ops."""
    state = write(slots.unsqueeze(1), nodes.unsqueeze(1), nodes.unsqueeze(1))
    return read(nodes.unsqueeze(1), slots.unsqueeze(1), state.content)[:, 0]


def dense_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Apply self-attention between all nodes; the slots are unused."""
    del slots
    return (nodes @ nodes.T).softmax(dim=1) @ nodes


def count(layer: Layer, n: int, slots: int, dim: int) -> OperationCounter:
    """Count the operations of one call. The count depends on sizes only, so the features are zero."""
    with OperationCounter() as counter:
        layer(torch.zeros(n, dim), torch.zeros(slots, dim))
    return counter


def exponent(sizes: Sequence[int], counts: Sequence[int]) -> float:
    """Return the slope of log count over log size, by least squares."""
    x = torch.tensor([math.log(size) for size in sizes], dtype=torch.float64)
    y = torch.tensor([math.log(count) for count in counts], dtype=torch.float64)
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def check_cost(layer: Layer, instances: int, generator: torch.Generator) -> Evidence:
    """Check that multiply-adds have exponent 1 in n, M and d, and pairs in n and M. ``instances`` counts doublings."""
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
        # One pair costs one exponential at any width, so pairs have exponent 0 in d.
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


Global = Callable[[int, int], nn.Module]
"""Maps width and number of slots to a module of node features."""


def paper_slots(channels: int, slots: int) -> nn.Module:
    """Build a SlotVirtualNode with the paper's routing by content."""
    return SlotVirtualNode(channels, slots, routing="free")


class DenseAttention(nn.Module):
    """Self-attention between all nodes, with projections."""

    def __init__(self, dim: int, slots: int) -> None:
        super().__init__()
        del slots
        self.project = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, dim=1)
        return (query @ key.T).softmax(dim=1) @ value


def count_layer(module: Global, n: int, degree: int, slots: int, dim: int) -> int:
    """Count the operations of messages along edges and a global module on a graph of constant degree."""
    # Every node sends to the next ones; the cost does not depend on the ends of the edges.
    sender = torch.arange(n).repeat_interleave(degree)
    edge_index = torch.stack([sender, (sender + 1 + torch.arange(degree).repeat(n)) % n])
    local, memory, x = GINConv(nn.Linear(dim, dim)).eval(), module(dim, slots).eval(), torch.zeros(n, dim)
    with torch.no_grad(), OperationCounter() as counter:
        memory(local(x, edge_index))
    return counter.operations


def square_root(n: int) -> int:
    """Return ``ceil(sqrt(n))``."""
    return math.isqrt(n - 1) + 1


# Largest allowed ratio, over all sizes, of operations per unit of |E| d + n d^2 + n M d.
SPREAD = 5.0


def check_layer_cost(module: Global, instances: int, generator: torch.Generator) -> Evidence:
    """Check that operations are proportional to ``|E| d + n d^2 + n M d`` within a factor of ``SPREAD``.

    ``instances`` is the number of fourfold steps in n.
    """
    del generator
    ratios: dict[str, float] = {}
    for n in (128 * 4**step for step in range(instances)):
        for degree in (2, 16):
            for slots in (8, square_root(n)):
                for dim in (16, 64):
                    work = count_layer(module, n, degree, slots, dim)
                    unit = n * degree * dim + n * dim**2 + n * slots * dim
                    ratios[f"n={n}, degree {degree}, M={slots}, d={dim}"] = work / unit
    most, fewest = max(ratios, key=lambda size: ratios[size]), min(ratios, key=lambda size: ratios[size])
    spread = ratios[most] / ratios[fewest]
    note = f"{ratios[fewest]:.1f} ({fewest}) to {ratios[most]:.1f} ({most})"
    series = (_layer_series(),) if spread <= SPREAD else ()
    return Evidence(spread <= SPREAD, spread, len(ratios), note, series)


def _layer_series() -> Series:
    sizes, degree, dim = [128 * 2**step for step in range(6)], 4, 32
    layers: tuple[tuple[str, Global, Callable[[int], int]], ...] = (
        ("slots, M=8", paper_slots, lambda n: 8),
        ("slots, M=sqrt(n)", paper_slots, square_root),
        ("dense attention", DenseAttention, lambda n: 8),
    )
    return Series(
        title=f"Operations of a whole layer, degree {degree}, d={dim}, counted",
        x=sizes,
        lines=[
            (label, [count_layer(module, n, degree, slots(n), dim) for n in sizes]) for label, module, slots in layers
        ],
        xlabel="nodes n",
        ylabel="operations",
        log="xy",
    )
