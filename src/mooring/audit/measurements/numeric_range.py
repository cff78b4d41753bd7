"""How large may the input be before the result stops being a number?"""

from __future__ import annotations

import torch

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.graphs import GraphBatch, random_graph, single
from mooring.audit.measurements.cost import growth

EXPONENTS = (0, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36)
SIZES = (10, 100, 1_000, 10_000)
# A module that forms all pairs is stopped where its pairs would fill the memory of a small machine.
QUADRATIC_LIMIT = 1_000
# Logits this large appear in training; a module that breaks below is broken.
EXPECTED_EXPONENT = 4


def numeric_range(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Scale the features, then add nodes, in float32, until the output holds inf or NaN."""
    generator = torch.Generator().manual_seed(seed)
    single_precision = adapter.cast(torch.float32)
    graphs = [random_graph(generator, 7 + trial % 5, adapter.channels) for trial in range(min(trials, 3))]
    largest_exponent = -1
    for exponent in EXPONENTS:
        if not all(_finite(single_precision, graph.with_features(graph.x * 10.0**exponent)) for graph in graphs):
            break
        largest_exponent = exponent
    limit = SIZES[-1] if growth(adapter, (64, 128, 256))[0] < 1.5 else QUADRATIC_LIMIT
    largest_nodes = 0
    for nodes in (size for size in SIZES if size <= limit):
        if not _finite(single_precision, single(torch.randn(nodes, adapter.channels, generator=generator).abs())):
            break
        largest_nodes = nodes
    broken = largest_exponent < EXPECTED_EXPONENT or largest_nodes < limit
    scale = "no scale" if largest_exponent < 0 else f"scale 1e{largest_exponent}"
    return Finding(
        name="numeric_range",
        verdict=f"finite to {scale} and {largest_nodes:,} nodes",
        value=float(largest_exponent),
        worst_case=f"first failure after {scale}" if largest_exponent < EXPONENTS[-1] else "none",
        trials=len(graphs) * len(EXPONENTS) + len(SIZES),
        explanation=f"largest power of ten of the features, tried to 1e{EXPONENTS[-1]}, and number of nodes, tried to "
        f"{limit:,}, with a finite float32 output; at least 1e{EXPECTED_EXPONENT} and all sizes are expected",
        broken=broken,
        details={"largest_exponent": largest_exponent, "largest_nodes": largest_nodes, "tried_nodes": limit},
    )


def _finite(adapter: Adapter, graphs: GraphBatch) -> bool:
    with torch.no_grad():
        return bool(torch.isfinite(adapter(graphs)).all())
