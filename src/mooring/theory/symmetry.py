"""Clones stay clones: virtual nodes that start equal and share their updates are one state at every depth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.ops import write
from mooring.theory.claim import Claim, Evidence
from mooring.theory.series import Series

# Equal rows may go through differently blocked matrix products, so clones agree only up to rounding.
ROUNDING = 1e-12

Start = Callable[[int, int, torch.Generator], Float64[Tensor, "copies dim"]]


def cloned(copies: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "copies dim"]:
    """One random state, copied."""
    return torch.randn(1, dim, generator=generator, dtype=torch.float64).expand(copies, -1).clone()


def one_differs(copies: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "copies dim"]:
    """Clones but for one coordinate of one of them."""
    states = cloned(copies, dim, generator)
    states[-1, 0] += 1e-3
    return states


def spread(start: Start, copies: int, depth: int, generator: torch.Generator) -> list[float]:
    """How far apart the virtual nodes are after each layer of a random network on a random graph.

    In a layer each virtual node attends to all nodes and adds the log mass to what it reads; then nodes are updated
    from their neighbours and from all virtual nodes. The virtual nodes share weights, drawn anew for each layer.
    """
    dim, nodes = 9, int(torch.randint(3, 20, (), generator=generator))
    adjacency = (torch.rand(nodes, nodes, generator=generator) < 0.3).double()
    hidden = torch.randn(nodes, dim, generator=generator, dtype=torch.float64)
    states = start(copies, dim, generator)
    gaps = []
    for _ in range(depth):
        queries, own, heard, local, back = torch.randn(5, dim, dim, generator=generator, dtype=torch.float64) / dim**0.5
        heard_state = write((states @ queries).unsqueeze(1), hidden.unsqueeze(1), hidden.unsqueeze(1))
        message = heard_state.content[0, :, 0] + heard_state.log_mass[0]
        states = (states @ own + message @ heard).tanh()
        hidden = (hidden @ own + adjacency @ hidden @ local + states.sum(dim=0) @ back).tanh()
        gaps.append(float((states - states[:1]).abs().max()))
    return gaps


def check_symmetry(start: Start, instances: int, generator: torch.Generator) -> Evidence:
    """The virtual nodes agree up to rounding after each of 16 layers."""
    depth, copies = 16, 5
    gaps = torch.tensor([spread(start, copies, depth, generator) for _ in range(instances)], dtype=torch.float64)
    series = Series(
        title=f"Largest distance between {copies} virtual nodes",
        x=list(range(1, depth + 1)),
        lines=(
            # A logarithmic axis has no zero: exact equality is drawn at 1e-17, below any rounding error.
            ("equal start", gaps.amax(dim=0).clamp(min=1e-17).tolist()),
            ("one coordinate differs by 1e-3", spread(one_differs, copies, depth, generator)),
        ),
        xlabel="layer",
        ylabel="distance",
        log="y",
    )
    worst = float(gaps.max())
    note = f"largest distance after any of {depth} layers {worst:.1e}"
    return Evidence(worst <= ROUNDING, worst, instances, note, (series,))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="app:capacity.symmetry",
        statement="M virtual nodes with equal starts, neighbourhoods and shared updates stay equal through any depth.",
        check=check_symmetry,
        subject=cloned,
        control=one_differs,
        control_means="premise removed: one coordinate of one initial state differs by 1e-3",
        margin_means="largest distance between two clones after any layer; rounding allows 1e-12",
        instances=60,
    ),
)
