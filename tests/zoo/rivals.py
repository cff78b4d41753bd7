"""Every registered module, built small and far from the identity, and one batch to call it with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mooring import zoo
from mooring.nn import SlotVirtualNode
from support import Ragged

# Heads must divide channels; everything else is a prime of its own.
SPEC = zoo.MemorySpec(channels=12, slots=5, heads=3, init_std=0.5)
ADDRESSED = replace(SPEC, address_channels=7)

NAMES = [name for name in zoo.names() if name != "none"]
# Which sources a target meets depends on the order and number of nodes: see the module's own page.
RANDOM_EDGES = {"exphormer"}
EQUIVARIANT = [name for name in NAMES if name not in RANDOM_EDGES]


def build(name: str, spec: zoo.MemorySpec = SPEC, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    module = zoo.build(name, spec)
    assert module is not None
    return module.double()


@dataclass(frozen=True)
class Call:
    """Arguments of one call; graph 1 of the three is empty."""

    x: Tensor
    batch: Tensor
    address: Tensor | None
    num_graphs: int = 3

    def pick(self, rows: Tensor) -> Call:
        address = None if self.address is None else self.address[rows]
        return replace(self, x=self.x[rows], batch=self.batch[rows], address=address)

    def to(self, module: nn.Module, **options: Tensor | bool | None) -> Tensor:
        return module(self.x, self.batch, address=self.address, num_graphs=self.num_graphs, **options)


def call(spec: zoo.MemorySpec = SPEC, seed: int = 3, sizes: tuple[int, ...] = (7, 0, 4)) -> Call:
    ragged = Ragged(sizes, False, seed)
    width = spec.address_channels
    address = None if width is None else ragged.randn(ragged.num_nodes, width, salt=2)
    return Call(ragged.randn(ragged.num_nodes, spec.channels, salt=1), ragged.index(), address, ragged.num_graphs)


# Built on our own slots, whose forward takes weights for each slot and a memory to continue from.
SLOTTED = [name for name in NAMES if isinstance(build(name), SlotVirtualNode)]
