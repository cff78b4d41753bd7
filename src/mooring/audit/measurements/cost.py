"""How does the work grow with the number of nodes?"""

from __future__ import annotations

import math

import torch

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.graphs import GraphBatch, collate, random_graph
from mooring.counter import OperationCounter

SIZES = (512, 1024, 2048)
LINEAR, QUADRATIC = 1.25, 1.6


def cost_growth(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Count operations at n, 2n and 4n nodes; the exponent is that of their growth, free of constant terms.

    Counting is exact, so a single forward pass per size is enough, whatever ``trials`` says.
    """
    exponent, counts = growth(adapter, SIZES, seed)
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(generator, nodes, adapter.channels) for nodes in (512, *[8] * 31)]
    overhead = _count(adapter, collate(graphs)) / max(sum(_count(adapter, graph) for graph in graphs), 1)
    shape = "linear" if exponent < LINEAR else "quadratic" if exponent > QUADRATIC else "between linear and quadratic"
    return Finding(
        name="cost_growth",
        verdict=f"{shape} in n" + (f"; a skewed batch costs {overhead:.0f} times its graphs" if overhead > 2 else ""),
        value=exponent,
        worst_case=f"{SIZES[-1]:,} nodes: {counts[-1]:,} operations",
        trials=len(SIZES),
        explanation="exponent of the growth of counted operations in the number of nodes; and the cost of one graph of "
        "512 nodes batched with 31 of 8 over the sum of their costs alone",
        details={"nodes": list(SIZES), "operations": counts, "skewed_batch_overhead": overhead},
    )


def growth(adapter: Adapter, sizes: tuple[int, int, int], seed: int = 0) -> tuple[float, list[int]]:
    """Return the exponent of the growth of operations over sizes that double, and the counts themselves."""
    generator = torch.Generator().manual_seed(seed)
    counts = [_count(adapter, random_graph(generator, nodes, adapter.channels)) for nodes in sizes]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    return (math.log2(second / first) if min(first, second) > 0 else 0.0), counts


def _count(adapter: Adapter, graphs: GraphBatch) -> int:
    # With a gradient wanted, torch's attention takes its composed path, whose parts can be counted.
    x = graphs.x.to(adapter.dtype).requires_grad_()
    with OperationCounter() as counter:
        adapter(graphs.with_features(x))
    return counter.operations
