"""Does the answer for one graph depend on the graphs it is batched with?"""

from __future__ import annotations

import torch

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.graphs import collate, random_graph
from mooring.audit.precision import relative_difference


def batch_mates(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among others of its own size, where nothing needs padding."""
    return _compare(
        adapter,
        seed,
        trials,
        "batch_mates",
        smallest=0,
        largest=0,
        leak="depends on the graphs beside it",
        mates="same-size mates",
    )


def padding(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Compare a graph alone with the same graph among larger ones, where a padded implementation has to pad it."""
    return _compare(
        adapter,
        seed,
        trials,
        "padding",
        smallest=1,
        largest=23,
        leak="depends on the sizes beside it",
        mates="larger mates",
    )


def _compare(
    adapter: Adapter, seed: int, trials: int, name: str, *, smallest: int, largest: int, leak: str, mates: str
) -> Finding:
    generator = torch.Generator().manual_seed(seed)
    worst, case = 0.0, "none"
    for trial in range(trials):
        size = int(torch.randint(3, 12, (), generator=generator))
        graph = random_graph(generator, size, adapter.channels)
        extra = torch.randint(smallest, largest + 1, (3,), generator=generator)
        # Mates of another scale and offset: a leak through a mean or a normalisation cannot cancel.
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
        verdict=leak if broken else "independent",
        value=worst,
        worst_case=case,
        trials=trials,
        explanation=f"largest relative change of one graph's output, alone against among {mates}; "
        f"tolerance {adapter.tolerance:g}",
        broken=broken,
    )
