"""Does the module count?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.graphs import random_graph, single
from mooring.audit.measurements.probe import count_probe
from mooring.audit.precision import relative_difference

# Below this a change is a numerical epsilon in a denominator, not a signal a model could use.
BLIND = 1e-6
# Share of the variance of log n a probe must explain on unseen multisets.
COUNTS = 0.9
COLOURS = 3
SAMPLES = (300, 90)


def replication(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Ask whether f(rX) = f(X), and if not, whether the count can be read from the output.

    The probe sees multisets over a small alphabet of colours, of varying base size and multiplicity, everything
    replicated: a node left unreplicated would act as an anchor. For a module with node outputs the features are those
    of one node whose own colour is always the same, so that only what came back from the others can tell.

    Paper: prop:replication, thm:wlinjective.
    """
    generator = torch.Generator().manual_seed(seed)
    change, case = 0.0, "none"
    for trial in range(trials):
        # Sizes and multiplicities of both parities: a module that sees only whether n is even must not pass for blind.
        nodes = 2 + trial % 11
        graph = random_graph(generator, nodes, adapter.channels)
        for times in (2, 3 + trial % 5):
            with torch.no_grad():
                once = adapter(graph)
                many = adapter(graph.replicate(times))[: once.size(0)]
            error = relative_difference(many, once)
            if error > change:
                change, case = error, f"{nodes} nodes repeated {times} times"
    explanation = f"largest relative change from X to rX, called blind below {BLIND:g}"
    if change <= BLIND:
        return Finding(
            "replication", "blind: f(rX) = f(X)", change, case, 2 * trials, explanation, details={"change": change}
        )
    alphabet = torch.randn(COLOURS, adapter.channels, generator=generator, dtype=torch.float64)
    train, held_out = (_multisets(adapter, alphabet, size, generator) for size in SAMPLES)
    result = count_probe(train, held_out)
    counts = result.r2 >= COUNTS
    percent = 100 * math.expm1(result.log_error)
    within = "below 0.1 %" if percent < 0.1 else f"{percent:.2g} %"
    verdict = f"counts: n recovered, median error {within}" if counts else "sees copies, but n is not recovered"
    return Finding(
        name="replication",
        verdict=verdict,
        value=result.r2,
        worst_case=case,
        trials=2 * trials + sum(SAMPLES),
        explanation=f"held-out R² of log n read from the output by a fitted probe, counts from {COUNTS}; {explanation}",
        details={
            "change": change,
            "r2": result.r2,
            "log_error": result.log_error,
            "probe": result.probe,
            "counts": counts,
        },
    )


def _multisets(adapter: Adapter, alphabet: Tensor, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    features, counts = [], []
    for _ in range(samples):
        base, times = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((2, 12), (1, 8)))
        colours = torch.randint(COLOURS, (base,), generator=generator)
        colours[0] = 0
        with torch.no_grad():
            features.append(adapter(single(alphabet[colours]).replicate(times))[0])
        counts.append(base * times)
    return torch.stack(features).double(), torch.tensor(counts, dtype=torch.float64)
