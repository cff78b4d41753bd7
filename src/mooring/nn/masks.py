"""Which nodes take part, and how the others are kept out of every product: zero times NaN is not zero."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mooring.ops.checks import readable
from mooring.ops.state import weightless


def writers(
    sources: Bool[Tensor, " nodes"] | None, log_weight: Float[Tensor, "nodes *rows"] | None
) -> Bool[Tensor, " nodes"] | None:
    """The nodes that write: sources whose multiplicity is not zero. None means all."""
    if log_weight is None:
        writes = sources
    else:
        present = ~weightless(log_weight)
        writes = present if sources is None else present & sources
    if writes is None or not readable(writes):
        return writes
    return None if bool(writes.all()) else writes


def sound_nodes(
    x: Float[Tensor, "nodes channels"],
    address: Float[Tensor, "nodes address_channels"] | None,
    writes: Bool[Tensor, " nodes"] | None,
) -> Bool[Tensor, " nodes"] | None:
    """The nodes that write, or hold finite numbers. None means all.

    A node outside has no valid query. Its output could only be NaN, and so would be the gradients of everything it
    read, even where no loss depends on it.
    """
    if writes is None:
        return None
    sound = writes | x.isfinite().all(dim=-1)
    if address is not None:
        sound = sound & (writes | address.isfinite().all(dim=-1))
    return None if readable(sound) and bool(sound.all()) else sound


def readers(
    sound: Bool[Tensor, " nodes"] | None, targets: Bool[Tensor, " nodes"] | None
) -> Bool[Tensor, " nodes"] | None:
    """The nodes that read: targets among the sound nodes. None means all."""
    return targets if sound is None else sound if targets is None else sound & targets


def hide(tensor: Float[Tensor, "nodes width"], seen: Bool[Tensor, " nodes"] | None) -> Float[Tensor, "nodes width"]:
    """Zero in place of the rows that must not be seen, whatever they hold; their gradient is zero."""
    return tensor if seen is None else tensor.masked_fill(~seen.unsqueeze(-1), 0.0)


def drop_writes(
    x: Float[Tensor, "nodes width"], slots: int, heads: int, share: float
) -> Float[Tensor, "nodes slots heads"]:
    """Draw log weights that drop a share of the writes and scale the others up."""
    survives = torch.rand(x.size(0), slots, heads, device=x.device) >= share
    return torch.where(survives, -math.log1p(-share), float("-inf")).to(x.dtype)


def add_log_weights(log_weight: Tensor | None, dropped: Float[Tensor, "nodes slots heads"] | None) -> Tensor | None:
    """Combine the weights of the nodes with those of dropout; None means that all are one."""
    if log_weight is None or dropped is None:
        return dropped if log_weight is None else log_weight
    return dropped + (log_weight[:, None, None] if log_weight.dim() == 1 else log_weight)
