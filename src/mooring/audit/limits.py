"""Limits: precision, range of the inputs, and growth of the cost."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mooring.audit.adapters import (
    Adapter,
    GraphBatch,
    collate,
    default_dtype,
    random_graph,
    relative_difference,
    single,
)
from mooring.audit.card import Finding, first_line
from mooring.counter import OperationCounter

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Rounding over a few layers is well below this; a cancellation in float32 is not.
EXPECTED_FLOAT32 = 1e-3
EXPONENTS = (0, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36)
NODES = (10, 100, 1_000, 10_000)
# Limit for a module that forms all pairs, which would fill the memory of a small machine.
QUADRATIC_LIMIT = 1_000
# Logits this large occur in training, so outputs must be finite up to here.
EXPECTED_EXPONENT = 4
# Doubling numbers of nodes; growth is called linear below the first exponent and quadratic above the second.
COST_NODES = (512, 1024, 2048)
LINEAR, QUADRATIC = 1.25, 1.6


def dtypes(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Cast module and input, and compare with float64; torch's default dtype remains float32, as for users."""
    generator = torch.Generator().manual_seed(seed)
    batches = [
        collate([random_graph(generator, nodes, adapter.channels) for nodes in (5, 11)]) for _ in range(min(trials, 4))
    ]
    with torch.no_grad():
        references = [adapter(batch) for batch in batches]
    errors: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        errors[name] = _precision_error(adapter.cast(dtype), batches, references, autocast=False)
    errors["autocast bfloat16"] = _precision_error(adapter.cast(torch.float32), batches, references, autocast=True)
    float32 = errors["float32"]
    broken = not isinstance(float32, float) or float32 > EXPECTED_FLOAT32 or float("inf") in errors.values()
    return Finding(
        name="dtypes",
        # The reference precision is mentioned only if the module raises in it.
        verdict=" · ".join(f"{name} {_error_text(error)}" for name, error in errors.items() if error != 0.0),
        value=float32 if isinstance(float32, float) else None,
        worst_case=max(
            (name for name in errors if isinstance(errors[name], float)), key=lambda name: errors[name], default="none"
        ),
        trials=len(batches) * len(errors),
        explanation=f"largest relative error against float64; float32 is expected within {EXPECTED_FLOAT32:g}, "
        "and no precision may give NaN; refusing one is allowed",
        broken=broken,
        details=errors,
    )


def _precision_error(
    adapter: Adapter, batches: list[GraphBatch], references: list[Tensor], *, autocast: bool
) -> float | str:
    worst = 0.0
    for batch, reference in zip(batches, references, strict=True):
        try:
            with (
                torch.no_grad(),
                default_dtype(torch.float32),
                torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast),
            ):
                x = batch.x.to(adapter.dtype)
                out = adapter.call(batch.with_features(x))
        except Exception as error:  # any exception is the behaviour to record
            return f"refused: {first_line(error)}"
        out = out[0] if isinstance(out, (tuple, list)) else out
        worst = max(worst, relative_difference(out.double().reshape(reference.shape), reference.double()))
    return worst


def _error_text(error: float | str) -> str:
    if isinstance(error, str):
        return "refused"
    return "NaN" if error == float("inf") else f"{error:.0e}"


def numeric_range(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Scale the features, then add nodes, in float32, until the output contains inf or NaN."""
    generator = torch.Generator().manual_seed(seed)
    single_precision = adapter.cast(torch.float32)
    graphs = [random_graph(generator, 7 + trial % 5, adapter.channels) for trial in range(min(trials, 3))]
    largest_exponent = -1
    for exponent in EXPONENTS:
        if not all(_finite(single_precision, graph.with_features(graph.x * 10.0**exponent)) for graph in graphs):
            break
        largest_exponent = exponent
    limit = NODES[-1] if growth(adapter, (64, 128, 256))[0] < 1.5 else QUADRATIC_LIMIT
    largest_nodes = 0
    for nodes in (size for size in NODES if size <= limit):
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
        trials=len(graphs) * len(EXPONENTS) + len(NODES),
        explanation=f"largest power of ten of the features, tried to 1e{EXPONENTS[-1]}, and number of nodes, tried to "
        f"{limit:,}, with a finite float32 output; at least 1e{EXPECTED_EXPONENT} and all sizes are expected",
        broken=broken,
        details={"largest_exponent": largest_exponent, "largest_nodes": largest_nodes, "tried_nodes": limit},
    )


def _finite(adapter: Adapter, graphs: GraphBatch) -> bool:
    with torch.no_grad():
        return bool(torch.isfinite(adapter(graphs)).all())


def cost_growth(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Count operations at n, 2n and 4n nodes, and return the exponent of their growth, without constant terms.

    Counts are exact, so a single forward pass per size is enough; ``trials`` is not used.
    """
    exponent, counts = growth(adapter, COST_NODES, seed)
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(generator, nodes, adapter.channels) for nodes in (512, *[8] * 31)]
    overhead = _count(adapter, collate(graphs)) / max(sum(_count(adapter, graph) for graph in graphs), 1)
    shape = "linear" if exponent < LINEAR else "quadratic" if exponent > QUADRATIC else "between linear and quadratic"
    return Finding(
        name="cost_growth",
        verdict=f"{shape} in n" + (f"; a skewed batch costs {overhead:.0f} times its graphs" if overhead > 2 else ""),
        value=exponent,
        worst_case=f"{COST_NODES[-1]:,} nodes: {counts[-1]:,} operations",
        trials=len(COST_NODES),
        explanation="exponent of the growth of counted operations in the number of nodes; and the cost of one graph of "
        "512 nodes batched with 31 of 8 over the sum of their costs alone",
        details={"nodes": list(COST_NODES), "operations": counts, "skewed_batch_overhead": overhead},
    )


def growth(adapter: Adapter, sizes: tuple[int, int, int], seed: int = 0) -> tuple[float, list[int]]:
    """Return the exponent of the growth of operations over doubling sizes, and the counts."""
    generator = torch.Generator().manual_seed(seed)
    counts = [_count(adapter, random_graph(generator, nodes, adapter.channels)) for nodes in sizes]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    return (math.log2(second / first) if min(first, second) > 0 else 0.0), counts


def _count(adapter: Adapter, graphs: GraphBatch) -> int:
    # If a gradient is required, torch's attention takes its composed path, whose operations can be counted.
    x = graphs.x.to(adapter.dtype).requires_grad_()
    with OperationCounter() as counter:
        adapter(graphs.with_features(x))
    return counter.operations
