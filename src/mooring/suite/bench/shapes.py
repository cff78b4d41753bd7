"""Settings and shapes of the benchmarks: sizes of a memory, its device, and the batches."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mooring.named import suggest
from mooring.nn.slot_write import folds_keys

# At 128 features, this many nodes take 50 gigabytes.
MOST_NODES = 100_000_000
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Setting:
    """Sizes of a memory, by default those of the published tables, and its device.

    Args:
        dim: width of the features.
        slots: slots of the memory.
        heads: number of heads, a divisor of ``dim``.
        device: ``cpu`` or ``cuda``, the device of modules and inputs.
    """

    dim: int = 128
    slots: int = 16
    heads: int = 4
    device: str = "cpu"

    def __post_init__(self) -> None:
        if min(self.dim, self.slots, self.heads) < 1 or self.dim % self.heads:
            raise ValueError(
                f"bench: dim={self.dim}, slots={self.slots}, heads={self.heads} but positive sizes were expected, "
                "and heads that divide dim."
            )
        if self.device not in DEVICES:
            raise ValueError(f"bench: unknown device {self.device!r}; expected {' or '.join(DEVICES)}.")

    @property
    def rows(self) -> int:
        """Number of slot queries of all heads."""
        return self.slots * self.heads

    @property
    def folded(self) -> bool:
        """Whether folding the projections into the slots is cheaper."""
        return folds_keys(self.slots, self.heads, self.dim)


@dataclass(frozen=True)
class Shape:
    """Named batch: the number of nodes of each graph, and a description."""

    name: str
    about: str
    sizes: Callable[[torch.Generator], Tensor]

    def batch(self) -> Tensor:
        """Return the sorted graph id of each node."""
        sizes = self.sizes(torch.Generator().manual_seed(0))
        return torch.repeat_interleave(torch.arange(sizes.numel()), sizes)


def _skewed(generator: torch.Generator) -> Tensor:
    sizes = torch.exp(4.2 + 1.3 * torch.randn(128, generator=generator)).clamp(5, 3000).long()
    sizes[0] = 3000  # guarantees the long tail that a padded peer pays for
    return sizes


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("molecules", "512 graphs of 10-40 nodes", lambda g: torch.randint(10, 41, (512,), generator=g)),
        Shape("peptides", "128 graphs of 150 nodes", lambda g: torch.full((128,), 150)),
        Shape("skewed", "128 graphs, log-normal sizes from 5 to 3,000", _skewed),
        Shape("medium", "8 graphs of 2,000 nodes", lambda g: torch.full((8,), 2000)),
        Shape("large", "one graph of 200,000 nodes", lambda g: torch.tensor([200_000])),
    )
}


def get_shape(name: str) -> Shape:
    """Return one of :data:`SHAPES`, equal graphs as in ``8x2000``, or small molecules as in ``molecules-64``.

    >>> get_shape("3x5").batch().tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    """
    if name in SHAPES:
        return SHAPES[name]
    if molecules := re.fullmatch(r"molecules-([1-9]\d{0,5})", name):
        count = int(molecules[1])
        return Shape(name, f"{count:,} graphs of 9-25 nodes", lambda g: torch.randint(9, 26, (count,), generator=g))
    equal = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", name)
    if equal is None:
        known = f"the shapes are {', '.join(SHAPES)}, equal graphs as in 8x2000 (8 of 2,000), and molecules-64."
        raise ValueError(f"bench: unknown shape {name!r}; {suggest(name, SHAPES, known)}")
    graphs, nodes = int(equal[1]), int(equal[2])
    if graphs * nodes > MOST_NODES:
        raise ValueError(f"bench: shape {name!r} has {graphs * nodes:,} nodes, expected at most {MOST_NODES:,}.")
    return Shape(name, f"{graphs:,} graphs of {nodes:,} nodes", lambda g: torch.full((graphs,), nodes))
