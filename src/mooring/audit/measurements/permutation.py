"""Does the output follow the order of the nodes, and does the index have to be sorted?"""

from __future__ import annotations

import torch

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding, first_line
from mooring.audit.graphs import GraphBatch, collate, random_graph
from mooring.audit.precision import relative_difference


def permutation(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Permute the nodes within each graph of a batch; node outputs must follow, graph outputs must not change."""
    generator = torch.Generator().manual_seed(seed)
    worst, case = 0.0, "none"
    for _ in range(trials):
        sizes = _sizes(generator)
        graphs = collate([random_graph(generator, size, adapter.channels) for size in sizes])
        order = torch.cat([offset + torch.randperm(size, generator=generator) for offset, size in _offsets(sizes)])
        error = _error(adapter, graphs, order)
        if error > worst:
            worst, case = error, f"graphs of {sizes} nodes"
    broken = worst > adapter.tolerance
    what = "equivariant" if adapter.per_node else "invariant"
    return Finding(
        name="permutation",
        verdict=f"not {what}: the node order changes the result" if broken else what,
        value=worst,
        worst_case=case,
        trials=trials,
        explanation="largest relative change when nodes are reordered within their graph; "
        f"tolerance {adapter.tolerance:g}",
        broken=broken,
    )


def unsorted_index(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Interleave the nodes of different graphs; a module may refuse, but must not answer wrongly."""
    generator = torch.Generator().manual_seed(seed)
    worst, case, refusal = 0.0, "none", ""
    for trial in range(trials):
        sizes = _sizes(generator)
        graphs = collate([random_graph(generator, size, adapter.channels) for size in sizes])
        order = _interleave(generator, sizes, trial)
        adapter(graphs)
        try:
            error = _error(adapter, graphs, order)
        except Exception as raised:  # the sorted batch went through just above, so any exception is a refusal
            refusal = first_line(raised)
            continue
        if error > worst:
            worst, case = error, f"graphs of {sizes} nodes"
    broken = worst > adapter.tolerance
    verdict = "silently wrong" if broken else f"refused: {refusal}" if refusal else "handled"
    return Finding(
        name="unsorted_index",
        verdict=verdict,
        value=worst if broken or not refusal else None,
        worst_case=case,
        trials=trials,
        explanation="largest relative change when nodes of different graphs are interleaved; "
        f"tolerance {adapter.tolerance:g}; refusing is allowed, a wrong answer is not",
        broken=broken,
        details={"refusal": refusal},
    )


def _error(adapter: Adapter, graphs: GraphBatch, order: torch.Tensor) -> float:
    with torch.no_grad():
        expected = adapter(graphs)
        got = adapter(graphs.permute(order))
    return relative_difference(got, expected[order] if adapter.per_node else expected)


def _sizes(generator: torch.Generator) -> list[int]:
    return [int(size) for size in torch.randint(2, 12, (3,), generator=generator)]


def _interleave(generator: torch.Generator, sizes: list[int], trial: int) -> torch.Tensor:
    """Return a shuffle of all nodes or, every other time, one exchange across a border: the slip that pads silently."""
    nodes = sum(sizes)
    if trial % 2 == 0:
        return torch.randperm(nodes, generator=generator)
    order = torch.arange(nodes)
    border = sizes[0] if trial % 4 == 1 else sizes[0] + sizes[1]
    order[border - 1], order[border] = border, border - 1
    return order


def _offsets(sizes: list[int]) -> list[tuple[int, int]]:
    return [(sum(sizes[:place]), size) for place, size in enumerate(sizes)]
