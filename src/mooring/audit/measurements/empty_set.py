"""What does a graph without nodes give?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding, first_line
from mooring.audit.graphs import GraphBatch, collate, random_graph, single
from mooring.audit.precision import relative_difference


def empty_set(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Put a graph without nodes between two others: outputs and gradients must stay finite, the others unchanged."""
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
        except Exception as error:  # whatever is raised is the behaviour being recorded
            # Messages often hold sizes; the first of them stands for all.
            if not any(problem.startswith("raises") for problem in problems):
                problems[f"raises: {first_line(error)}"] = sizes
            continue
        if not bool(torch.isfinite(out).all()):
            problems.setdefault("NaN or inf in the output", sizes)
            continue
        if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            problems.setdefault("NaN or inf in the gradient", sizes)
        # Against the same two graphs batched without it, so that padding is the same on both sides.
        with torch.no_grad():
            change = relative_difference(adapter.rows(batch, place), adapter.rows(collate([left, right]), 1))
        worst = max(worst, change)
        if change > adapter.tolerance:
            problems.setdefault("changes the other graphs", sizes)
    alone = _alone(adapter)
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
    found = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def _alone(adapter: Adapter) -> str:
    try:
        with torch.no_grad():
            out = adapter(single(torch.empty(0, adapter.channels, dtype=torch.float64)))
    except Exception as error:  # recorded, not judged: PyG itself seldom builds such a batch
        return f"raises {type(error).__name__}"
    return "finite" if bool(torch.isfinite(out).all()) else "NaN or inf"
