"""The least a write and a read can cost: their bare matrix products, and one copy of the features."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mooring.suite.bench.shapes import Setting

Run = Callable[[], None]
PRODUCTS, COPY = "floor: products", "floor: copy"


def contestants(num_nodes: int, setting: Setting, *, backward: bool) -> dict[str, Run]:
    """The parts of the floor, to be timed beside everything else."""
    products = folded if setting.folded else projected
    return {PRODUCTS: products(num_nodes, setting, backward=backward), COPY: copy(num_nodes, setting)}


def folded(num_nodes: int, setting: Setting, *, backward: bool) -> Run:
    """The skinny products of write and read over all nodes, graph boundaries ignored.

    Two for each of write and read forward, four for each backward, none recomputed. Outputs are allocated
    beforehand, so that nothing but the products is timed.
    """
    of_nodes, of_slots, dim = (num_nodes, setting.rows), (setting.rows, setting.dim), setting.dim
    with torch.device(setting.device):
        x, table = torch.randn(num_nodes, dim), torch.randn(of_slots)
        weights, scores = torch.rand(of_nodes), torch.empty(of_nodes)
        wide, small = torch.empty(num_nodes, dim), torch.empty(of_slots)

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
    """The products where slots x heads is large: nodes are projected to keys, values and queries before they meet the
    slots.

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
    """One pass over the features."""
    with torch.device(setting.device):
        x, out = torch.randn(num_nodes, setting.dim), torch.empty(num_nodes, setting.dim)

    def run() -> None:
        out.copy_(x)

    return run
