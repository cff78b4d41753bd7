"""Does what a node receives depend on the node?"""

from __future__ import annotations

import torch

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.graphs import single


def separability(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure mixed differences f(h_a, z1) - f(h_a, z2) - f(h_b, z1) + f(h_b, z2), relative to their terms.

    Two target nodes a and b stay, the other nodes are exchanged: with a separable output f(h) + g(z) both targets
    change by the same vector and the mixed difference vanishes, so no two of them can be told to swap labels. Both
    targets are in both graphs, so their own share of z is the same on both sides.

    Paper: prop:separable.
    """
    explanation = (
        f"smallest mixed difference over the change it is made of; separable where all are below {adapter.tolerance:g}"
    )
    if not adapter.per_node:
        return Finding("separability", "a readout: nothing returns to the nodes", None, "none", 0, explanation)
    generator = torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    cases: list[str] = []
    for _ in range(trials):
        others = int(torch.randint(3, 12, (), generator=generator))
        targets = torch.randn(2, adapter.channels, generator=generator, dtype=torch.float64)
        first, second = (
            torch.randn(others, adapter.channels, generator=generator, dtype=torch.float64) for _ in range(2)
        )
        with torch.no_grad():
            before, after = (adapter(single(torch.cat([targets, rest])))[:2] for rest in (first, second))
        change = after - before
        size = float(change.abs().max())
        # A change at the level of rounding is no change: its mixed difference would be noise over noise.
        if size > adapter.tolerance * float(before.abs().max()):
            ratios.append(float((change[0] - change[1]).abs().max()) / size)
            cases.append(f"{others} other nodes")
    if not ratios:
        return Finding("separability", "nothing travels between nodes", None, "none", trials, explanation)
    separable = max(ratios) <= adapter.tolerance
    return Finding(
        name="separability",
        verdict="separable: every node gets the same change" if separable else "joint: the change depends on the node",
        value=max(ratios) if separable else min(ratios),
        worst_case=cases[ratios.index(min(ratios))],
        trials=trials,
        explanation=explanation,
        details={"separable": separable, "smallest": min(ratios), "largest": max(ratios)},
    )
