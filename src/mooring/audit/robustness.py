"""Robustness: node order, the rest of the batch, graphs without nodes, precision, range of the inputs, and cost."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, takewhile

import torch
from torch import Generator, Tensor, nn

from mooring.audit.adapters import (
    Adapter,
    Graphs,
    collate,
    default_dtype,
    random_graph,
    relative_difference,
    single,
)
from mooring.audit.card import Finding, first_line
from mooring.counter import OperationCounter

# Nodes of a large graph; more than a buffer of ordinary size can hold.
LARGE = 150
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Rounding over a few layers is well below this; a cancellation in float32 is not.
EXPECTED_FLOAT32 = 1e-3
EXPONENTS = (0, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36)
# Logits this large occur in training, so outputs must be finite up to here.
EXPECTED_EXPONENT = 4
NUM_NODES = (10, 100, 1_000, 10_000)
# Limit for a module that forms all pairs, which would fill the memory of a small machine.
QUADRATIC_LIMIT = 1_000
# Doubling numbers of nodes; growth is called linear below the first exponent and quadratic above the second.
COST_NODES = (512, 1024, 2048)
LINEAR, QUADRATIC = 1.25, 1.6


def permutation(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Permute the nodes within each graph of a batch; node outputs must follow, graph outputs must not change."""
    generator = Generator().manual_seed(seed)
    errors = []
    for trial in range(trials):
        sizes, graphs = _draw_batch(adapter, generator, trial)
        starts = accumulate(sizes[:-1], initial=0)
        order = [start + torch.randperm(size, generator=generator) for start, size in zip(starts, sizes, strict=True)]
        errors.append((_change(adapter, graphs, torch.cat(order)), f"graphs of {sizes} nodes"))
    kind = "equivariant" if adapter.per_node else "invariant"
    verdicts = kind, f"not {kind}: the node order changes the result"
    return _finding("permutation", adapter, errors, verdicts, "when nodes are reordered within their graph")


def unsorted_index(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Interleave the nodes of different graphs; a module may raise, but must not return a wrong result."""
    generator = Generator().manual_seed(seed)
    errors, refusal = [], ""
    for trial in range(trials):
        sizes, graphs = _draw_batch(adapter, generator, trial)
        order = torch.arange(sum(sizes))
        if trial % 2 == 0:
            order = torch.randperm(sum(sizes), generator=generator)
        else:  # one swap across a border, which padding may not notice
            border = sizes[0] if trial % 4 == 1 else sizes[0] + sizes[1]
            order[border - 1], order[border] = border, border - 1
        adapter(graphs)
        try:
            errors.append((_change(adapter, graphs, order), f"graphs of {sizes} nodes"))
        except Exception as raised:  # the sorted batch passed above, so any exception is due to the order
            refusal = first_line(raised)
    verdicts = "handled", "silently wrong"
    finding = _finding("unsorted_index", adapter, errors, verdicts, "when nodes of different graphs are interleaved")
    explanation = f"{finding.explanation}; refusing is allowed, a wrong answer is not"
    finding = replace(finding, trials=trials, explanation=explanation, details={"refusal": refusal})
    if refusal and not finding.broken:
        return replace(finding, verdict=f"refused: {refusal}", value=None)
    return finding


def _draw_batch(adapter: Adapter, generator: Generator, trial: int) -> tuple[list[int], Graphs]:
    """Draw three small graphs; every fourth trial, one of them is large."""
    sizes = torch.randint(2, 12, (3,), generator=generator).tolist()
    sizes[0] = _size(sizes[0], trial)
    return sizes, collate([random_graph(generator, size, adapter.channels) for size in sizes])


def _size(small: int, trial: int) -> int:
    """Return ``small``, or every fourth trial ``LARGE``: small graphs do not show truncation."""
    return LARGE if trial % 4 == 3 else small


def _change(adapter: Adapter, graphs: Graphs, order: Tensor) -> float:
    with torch.no_grad():
        expected = adapter(graphs)
        return relative_difference(adapter(graphs.permute(order)), expected[order] if adapter.per_node else expected)


def _finding(
    name: str, adapter: Adapter, errors: list[tuple[float, str]], verdicts: tuple[str, str], change: str
) -> Finding:
    """Return the finding of the largest change, which breaks the invariant if it is above the tolerance.

    ``errors`` has a change and its case per trial; ``verdicts`` are of a kept and of a broken invariant.
    """
    worst, case = max([(0.0, "none"), *errors], key=lambda error: error[0])
    broken = worst > adapter.tolerance
    explanation = f"largest relative change {change}; tolerance {adapter.tolerance:g}"
    return Finding(name, verdicts[broken], worst, case, len(errors), explanation, broken)


def batch_mates(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among others of equal size, which need no padding."""
    errors = _batching_errors(adapter, seed, trials, 0, 0)
    verdicts = "independent", "depends on the graphs beside it"
    change = "of one graph's output, alone against among same-size mates"
    return _finding("batch_mates", adapter, errors, verdicts, change)


def padding(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among larger ones, which a padded implementation has to pad."""
    errors = _batching_errors(adapter, seed, trials, 1, 23)
    verdicts = "independent", "depends on the sizes beside it"
    change = "of one graph's output, alone against among larger mates"
    return _finding("padding", adapter, errors, verdicts, change)


def _batching_errors(adapter: Adapter, seed: int, trials: int, least: int, most: int) -> list[tuple[float, str]]:
    """Return changes of a graph among three others that have ``least`` to ``most`` nodes more."""
    generator = Generator().manual_seed(seed)
    errors = []
    for trial in range(trials):
        size = _size(int(torch.randint(3, 12, (), generator=generator)), trial)
        graph = random_graph(generator, size, adapter.channels)
        sizes = [size + more for more in torch.randint(least, most + 1, (3,), generator=generator).tolist()]
        # Mates have another scale and offset, so that a leak through a mean or a normalisation cannot cancel.
        mates = [random_graph(generator, nodes, adapter.channels, scale=3.0) for nodes in sizes]
        mates = [mate.with_features(mate.x + 1.0) for mate in mates]
        place = trial % 4
        with torch.no_grad():
            batched = adapter.rows(collate([*mates[:place], graph, *mates[place:]]), place)
            error = relative_difference(batched, adapter.rows(graph, 0))
        errors.append((error, f"{size} nodes, mates of {sizes}, place {place}"))
    return errors


def empty_set(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Put a graph without nodes between two others; check finite outputs and gradients, and unchanged others."""
    generator = Generator().manual_seed(seed)
    problems: dict[str, str] = {}
    worst = 0.0
    empty = single(torch.empty(0, adapter.channels, dtype=torch.float64))
    for trial in range(trials):
        left, right = (random_graph(generator, nodes, adapter.channels) for nodes in (3 + trial % 5, 4 + trial % 7))
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
        if not _all_finite(out):
            problems.setdefault("NaN or inf in the output", sizes)
            continue
        if not all(map(_all_finite, gradients)):
            problems.setdefault("NaN or inf in the gradient", sizes)
        # Compare with the same two graphs batched without the empty one, so that padding is the same on both sides.
        with torch.no_grad():
            change = relative_difference(adapter.rows(batch, place), adapter.rows(collate([left, right]), 1))
        worst = max(worst, change)
        if change > adapter.tolerance:
            problems.setdefault("changes the other graphs", sizes)
    try:
        alone = "finite" if _finite(adapter, empty) else "NaN or inf"
    except Exception as error:  # recorded, not judged: PyG seldom builds a batch without any nodes
        alone = f"raises {type(error).__name__}"
    return Finding(
        name="empty_set",
        verdict="; ".join(problems) or "finite",
        value=worst,
        worst_case=next(iter(problems.values()), "none"),
        trials=trials,
        explanation="a graph without nodes between two others: raises, NaN or finite, in value and gradient; "
        f"a batch with no nodes at all: {alone}",
        broken=bool(problems),
        details={"problems": list(problems), "no_nodes_at_all": alone},
    )


def _gradients(adapter: Adapter, batch: Graphs) -> list[Tensor]:
    x = batch.x.to(adapter.dtype).requires_grad_()
    weights = list(adapter.module.parameters()) if isinstance(adapter.module, nn.Module) else []
    inputs = [x, *(weight for weight in weights if weight.requires_grad)]
    out = adapter(batch.with_features(x))
    if not out.requires_grad:
        return []
    gradients = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def _all_finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())


def _finite(adapter: Adapter, graphs: Graphs) -> bool:
    with torch.no_grad():
        return _all_finite(adapter(graphs))


def dtypes(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Cast module and input, and compare with float64; torch's default dtype remains float32, as for users."""
    generator = Generator().manual_seed(seed)
    batches = [
        collate([random_graph(generator, nodes, adapter.channels) for nodes in (5, 11)]) for _ in range(min(trials, 4))
    ]
    with torch.no_grad():
        references = [adapter(batch) for batch in batches]
    cases = [*zip(batches, references, strict=True)]
    errors = {name: _precision_error(adapter.cast(dtype), cases) for name, dtype in DTYPES.items()}
    errors["autocast bfloat16"] = _precision_error(adapter.cast(torch.float32), cases, autocast=True)
    measured = {name: error for name, error in errors.items() if isinstance(error, float)}
    float32 = measured.get("float32")
    return Finding(
        name="dtypes",
        # The reference precision is mentioned only if the module raises in it.
        verdict=" · ".join(f"{name} {_error_text(error)}" for name, error in errors.items() if error != 0.0),
        value=float32,
        worst_case=max(measured, key=measured.__getitem__, default="none"),
        trials=len(batches) * len(errors),
        explanation=f"largest relative error against float64; float32 is expected within {EXPECTED_FLOAT32:g}, "
        "and no precision may give NaN; refusing one is allowed",
        broken=float32 is None or float32 > EXPECTED_FLOAT32 or math.inf in measured.values(),
        details=errors,
    )


def _precision_error(adapter: Adapter, cases: list[tuple[Graphs, Tensor]], *, autocast: bool = False) -> float | str:
    """Return the largest relative error to the references, or the reason why the module raises."""
    worst = 0.0
    for batch, reference in cases:
        bfloat16 = torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast)
        try:
            with torch.no_grad(), default_dtype(torch.float32), bfloat16:
                out = adapter.call(batch.with_features(batch.x.to(adapter.dtype)))
        except Exception as error:  # any exception is the behaviour to record
            return f"refused: {first_line(error)}"
        out = out[0] if isinstance(out, (tuple, list)) else out
        worst = max(worst, relative_difference(out.double().reshape(reference.shape), reference.double()))
    return worst


def _error_text(error: float | str) -> str:
    if isinstance(error, str):
        return "refused"
    return "NaN" if error == math.inf else f"{error:.0e}"


def numeric_range(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Scale the features, then add nodes, in float32, until the output contains inf or NaN."""
    generator = Generator().manual_seed(seed)
    single_precision = adapter.cast(torch.float32)
    graphs = [random_graph(generator, 7 + trial % 5, adapter.channels) for trial in range(min(trials, 3))]

    def finite_at(exponent: int) -> bool:
        return all(_finite(single_precision, graph.with_features(graph.x * 10.0**exponent)) for graph in graphs)

    def finite_for(nodes: int) -> bool:
        return _finite(single_precision, single(torch.randn(nodes, adapter.channels, generator=generator).abs()))

    largest_exponent = max(takewhile(finite_at, EXPONENTS), default=-1)
    limit = NUM_NODES[-1] if growth(adapter, (64, 128, 256))[0] < 1.5 else QUADRATIC_LIMIT
    largest_nodes = max(takewhile(finite_for, (nodes for nodes in NUM_NODES if nodes <= limit)), default=0)
    scale = "no scale" if largest_exponent < 0 else f"scale 1e{largest_exponent}"
    return Finding(
        name="numeric_range",
        verdict=f"finite to {scale} and {largest_nodes:,} nodes",
        value=float(largest_exponent),
        worst_case=f"first failure after {scale}" if largest_exponent < EXPONENTS[-1] else "none",
        trials=len(graphs) * len(EXPONENTS) + len(NUM_NODES),
        explanation=f"largest power of ten of the features, tried to 1e{EXPONENTS[-1]}, and number of nodes, tried to "
        f"{limit:,}, with a finite float32 output; at least 1e{EXPECTED_EXPONENT} and all sizes are expected",
        broken=largest_exponent < EXPECTED_EXPONENT or largest_nodes < limit,
        details={"largest_exponent": largest_exponent, "largest_nodes": largest_nodes, "tried_nodes": limit},
    )


def cost_growth(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Count operations at n, 2n and 4n nodes, and return the exponent of their growth, without constant terms.

    Counts are exact, so a single forward pass per size is enough; ``trials`` is not used.
    """
    exponent, counts = growth(adapter, COST_NODES, seed)
    generator = Generator().manual_seed(seed)
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
    generator = Generator().manual_seed(seed)
    counts = [_count(adapter, random_graph(generator, nodes, adapter.channels)) for nodes in sizes]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    return (math.log2(second / first) if min(first, second) > 0 else 0.0), counts


def _count(adapter: Adapter, graphs: Graphs) -> int:
    # If a gradient is required, torch's attention takes its composed path, whose operations can be counted.
    x = graphs.x.to(adapter.dtype).requires_grad_()
    with OperationCounter() as counter:
        adapter(graphs.with_features(x))
    return counter.operations
