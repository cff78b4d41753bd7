"""All virtual nodes in all variants, with their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mooring.nn import SlotVirtualNode, VirtualNode
from support import Ragged

# Heads must divide channels; everything else is a prime of its own.
CHANNELS, HEADS, SLOTS, ADDRESS = 10, 2, 3, 7


def slots(**kwargs: Any) -> SlotVirtualNode:
    """Build a module far from the identity, so that the memory has a visible effect."""
    far = {} if isinstance(kwargs.get("integrate"), nn.Module) else {"init_std": 0.5}
    return SlotVirtualNode(CHANNELS, kwargs.pop("slots", SLOTS), HEADS, **{**far, **kwargs})


VIRTUAL_NODES: dict[str, Callable[[], nn.Module]] = {
    "anchored": slots,
    "anchored, log-odds": lambda: slots(mass="log_odds"),
    "anchored, mixture": lambda: slots(split=False),
    "cross-attn": lambda: slots(anchored=False),
    "free": lambda: slots(routing="free"),
    "free, cross-attn": lambda: slots(routing="free", anchored=False),
    "addressed": lambda: slots(address_channels=ADDRESS),
    "residual": lambda: slots(integrate="residual"),
    "global film": lambda: slots(integrate="global_film"),
    "competing": lambda: slots(competition=True, integrate="linear_film", mass_map="linear"),
    "competing, addressed": lambda: slots(competition=True, address_channels=ADDRESS),
    "many slots": lambda: slots(slots=13),
    "many slots, free": lambda: slots(slots=13, routing="free"),
    "residual, free": lambda: slots(integrate="residual", routing="free"),
    "mean": lambda: VirtualNode(CHANNELS),
    "sum": lambda: VirtualNode(CHANNELS, pool="sum"),
    "max": lambda: VirtualNode(CHANNELS, pool="max"),
    "clones": lambda: VirtualNode(CHANNELS, copies=3),
}
NAMES = sorted(VIRTUAL_NODES)


def build(name: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return VIRTUAL_NODES[name]().to(dtype)


def inputs(batch: Ragged, name: str, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Return ``x`` and, if the module takes it, ``address``."""
    tensors = {"x": batch.randn(batch.num_nodes, CHANNELS, dtype=dtype, salt=1)}
    if "addressed" in name:
        tensors["address"] = batch.randn(batch.num_nodes, ADDRESS, dtype=dtype, salt=2)
    return tensors
