"""Invariances: independence of node order, of the rest of the batch, and of a graph without nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.audit.adapters import Adapter, GraphBatch, collate, random_graph, relative_difference, single
from mooring.audit.card import Finding, first_line

# Nodes of a large graph; more than a buffer of ordinary size can hold.
LARGE = 150


def permutation(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Permute the nodes within each graph of a batch; node outputs must follow, graph outputs must not change."""
    generator = torch.Generator().manual_seed(seed)
    worst, case = 0.0, "none"
    for trial in range(trials):
        sizes = _sizes(generator, trial)
        graphs = collate([random_graph(generator, size, adapter.channels) for size in sizes])
        order = torch.cat([offset + torch.randperm(size, generator=generator) for offset, size in _offsets(sizes)])
        error = _change(adapter, graphs, order)
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
    """Interleave the nodes of different graphs; a module may raise, but must not return a wrong result."""
    generator = torch.Generator().manual_seed(seed)
    worst, case, refusal = 0.0, "none", ""
    for trial in range(trials):
        sizes = _sizes(generator, trial)
        graphs = collate([random_graph(generator, size, adapter.channels) for size in sizes])
        order = _interleave(generator, sizes, trial)
        adapter(graphs)
        try:
            error = _change(adapter, graphs, order)
        except Exception as raised:  # the sorted batch passed above, so any exception is due to the order
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


def _change(adapter: Adapter, graphs: GraphBatch, order: torch.Tensor) -> float:
    with torch.no_grad():
        expected = adapter(graphs)
        got = adapter(graphs.permute(order))
    return relative_difference(got, expected[order] if adapter.per_node else expected)


def _sizes(generator: torch.Generator, trial: int) -> list[int]:
    """Draw the sizes of three small graphs; every fourth trial, one of them is large."""
    first, *others = (int(size) for size in torch.randint(2, 12, (3,), generator=generator))
    return [_size(first, trial), *others]


def _size(small: int, trial: int) -> int:
    """Return ``small``, or every fourth trial ``LARGE``: small graphs do not show truncation."""
    return LARGE if trial % 4 == 3 else small


def _interleave(generator: torch.Generator, sizes: list[int], trial: int) -> torch.Tensor:
    """Return a shuffle of all nodes, or every other trial one swap across a border, which padding may not notice."""
    nodes = sum(sizes)
    if trial % 2 == 0:
        return torch.randperm(nodes, generator=generator)
    order = torch.arange(nodes)
    border = sizes[0] if trial % 4 == 1 else sizes[0] + sizes[1]
    order[border - 1], order[border] = border, border - 1
    return order


def _offsets(sizes: list[int]) -> list[tuple[int, int]]:
    return [(sum(sizes[:place]), size) for place, size in enumerate(sizes)]


def batch_mates(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among others of equal size, which need no padding."""
    return _compare_batched(adapter, seed, trials, "batch_mates", (0, 0), "graphs", "same-size mates")


def padding(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among larger ones, which a padded implementation has to pad."""
    return _compare_batched(adapter, seed, trials, "padding", (1, 23), "sizes", "larger mates")


def _compare_batched(
    adapter: Adapter, seed: int, trials: int, name: str, larger: tuple[int, int], cause: str, mates: str
) -> Finding:
    generator = torch.Generator().manual_seed(seed)
    worst, case = 0.0, "none"
    for trial in range(trials):
        size = _size(int(torch.randint(3, 12, (), generator=generator)), trial)
        graph = random_graph(generator, size, adapter.channels)
        extra = torch.randint(larger[0], larger[1] + 1, (3,), generator=generator)
        # Mates have another scale and offset, so that a leak through a mean or a normalisation cannot cancel.
        others = [random_graph(generator, size + int(more), adapter.channels, scale=3.0) for more in extra]
        others = [mate.with_features(mate.x + 1.0) for mate in others]
        place = trial % 4
        batch = collate([*others[:place], graph, *others[place:]])
        with torch.no_grad():
            error = relative_difference(adapter.rows(batch, place), adapter.rows(graph, 0))
        if error > worst:
            worst, case = error, f"{size} nodes, mates of {[size + int(more) for more in extra]}, place {place}"
    broken = worst > adapter.tolerance
    return Finding(
        name=name,
        verdict=f"depends on the {cause} beside it" if broken else "independent",
        value=worst,
        worst_case=case,
        trials=trials,
        explanation=f"largest relative change of one graph's output, alone against among {mates}; "
        f"tolerance {adapter.tolerance:g}",
        broken=broken,
    )


def empty_set(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Put a graph without nodes between two others; check finite outputs and gradients, and unchanged others."""
    generator = torch.Generator().manual_seed(seed)
    problems: dict[str, str] = {}
    worst = 0.0
    for trial in range(trials):
        left, right = (random_graph(generator, nodes, adapter.channels) for nodes in (3 + trial % 5, 4 + trial % 7))
        empty = single(torch.empty(0, adapter.channels, dtype=torch.float64))
        members = [left, right]
        members.insert(trial % 3, empty)
        place = 1 if trial % 3 == 2 else 2
        sizes = f"graphs of {[member.num_nodes for member in members]} nodes"
        batch = collate(members)
        try:
            out = adapter(batch)
            gradients = _gradients(adapter, batch)
        except Exception as error:  # any exception is the behaviour to record
            # Messages often contain sizes, so only the first is recorded.
            if not any(problem.startswith("raises") for problem in problems):
                problems[f"raises: {first_line(error)}"] = sizes
            continue
        if not bool(torch.isfinite(out).all()):
            problems.setdefault("NaN or inf in the output", sizes)
            continue
        if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            problems.setdefault("NaN or inf in the gradient", sizes)
        # Compare with the same two graphs batched without the empty one, so that padding is the same on both sides.
        with torch.no_grad():
            change = relative_difference(adapter.rows(batch, place), adapter.rows(collate([left, right]), 1))
        worst = max(worst, change)
        if change > adapter.tolerance:
            problems.setdefault("changes the other graphs", sizes)
    alone = _without_any_nodes(adapter)
    verdict = "; ".join(problems) if problems else "finite"
    return Finding(
        name="empty_set",
        verdict=verdict,
        value=worst,
        worst_case=next(iter(problems.values()), "none"),
        trials=trials,
        explanation="a graph without nodes between two others: raises, NaN or finite, in value and gradient; "
        f"a batch with no nodes at all: {alone}",
        broken=bool(problems),
        details={"problems": list(problems), "no_nodes_at_all": alone},
    )


def _gradients(adapter: Adapter, batch: GraphBatch) -> list[Tensor]:
    x = batch.x.to(adapter.dtype).requires_grad_()
    weights = list(adapter.module.parameters()) if isinstance(adapter.module, nn.Module) else []
    inputs = [x, *(weight for weight in weights if weight.requires_grad)]
    out = adapter(batch.with_features(x))
    if not out.requires_grad:
        return []
    gradients = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def _without_any_nodes(adapter: Adapter) -> str:
    try:
        with torch.no_grad():
            out = adapter(single(torch.empty(0, adapter.channels, dtype=torch.float64)))
    except Exception as error:  # recorded, not judged: PyG seldom builds such a batch
        return f"raises {type(error).__name__}"
    return "finite" if bool(torch.isfinite(out).all()) else "NaN or inf"
