"""Sets of unit address vectors that keep a margin from one another, in few dimensions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

Draw = Callable[[int, int, torch.Generator], Float64[Tensor, "count dim"]]


def spherical(count: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "count dim"]:
    """Independent uniform points of the unit sphere."""
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator, dtype=torch.float64), dim=1)


def binary(count: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "count dim"]:
    """Independent uniform corners of the cube, scaled to length one."""
    return (torch.randint(2, (count, dim), generator=generator).double() * 2 - 1) / dim**0.5


def margin(codebook: Float64[Tensor, "slots dim"]) -> float:
    """``1 - max a_m . a_m'`` over different m: the Delta of prop:routing."""
    similarity = codebook @ codebook.T
    return 1.0 - float(similarity.fill_diagonal_(-1.0).max())


def logarithmic_dim(slots: int) -> int:
    """Dimensions in which :func:`separated` finds ``slots`` addresses of margin 1/2: ``7 ceil(log2 M) + 1``.

    A random point is within margin 1/2 of a given address with probability at most ``exp(-dim/8)``, so while
    ``M exp(-dim/8) < 1``, i.e. ``dim > 5.55 log2 M``, some point is always left to add.
    """
    return 7 * max(1, (slots - 1).bit_length()) + 1


def separated(
    slots: int, dim: int, draw: Draw, generator: torch.Generator, *, least: float = 0.5, draws: int = 20
) -> Float64[Tensor, "slots dim"]:
    """A codebook grown greedily: candidates are kept while they stay ``least`` away from all kept before.

    Where the dimension cannot hold so many, random points fill the codebook up and its margin is smaller: measure it.

    Paper: the codebooks after prop:routing.
    """
    kept = draw(1, dim, generator)
    for _ in range(draws):
        if len(kept) == slots:
            return kept
        candidates = draw(2 * slots, dim, generator)
        clear = (candidates @ kept.T <= 1 - least).all(dim=1)
        near = (candidates @ candidates.T > 1 - least).tril_(-1)
        # A candidate is dropped when it is near an earlier clear one, even if that one is dropped too. This costs only
        # a few candidates.
        chosen = candidates[clear & ~(near & clear).any(dim=1)]
        kept = torch.cat([kept, chosen])[:slots]
    return torch.cat([kept, draw(slots - len(kept), dim, generator)])
