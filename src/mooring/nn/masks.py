"""Masks: which nodes write and read. Masked rows are zeroed before every product, because 0 * NaN is NaN."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mooring.ops.checks import readable
from mooring.ops.state import all_neginf


def writers(
    sources: Bool[Tensor, " nodes"] | None, log_weight: Float[Tensor, "nodes *rows"] | None
) -> Bool[Tensor, " nodes"] | None:
    """Return the mask of the nodes that write: sources whose multiplicity is not zero. None means all."""
    if log_weight is None:
        writes = sources
    else:
        present = ~all_neginf(log_weight)
        writes = present if sources is None else present & sources
    if writes is None or not readable(writes):
        return writes
    return None if bool(writes.all()) else writes


def sound_nodes(
    x: Float[Tensor, "nodes channels"],
    address: Float[Tensor, "nodes address_channels"] | None,
    writes: Bool[Tensor, " nodes"] | None,
) -> Bool[Tensor, " nodes"] | None:
    """Return the mask of the nodes that write or whose features are finite. None means all.

    Any other node has no valid query. Its output would be NaN, and so would the gradients of everything it read, even
    if no loss depends on it.
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
    """Return the mask of the nodes that read: targets among the sound nodes. None means all."""
    return targets if sound is None else sound if targets is None else sound & targets


def hide(tensor: Float[Tensor, "nodes width"], visible: Bool[Tensor, " nodes"] | None) -> Float[Tensor, "nodes width"]:
    """Zero the rows outside a mask, NaN included. Their gradient is zero. None means that all are visible."""
    return tensor if visible is None else tensor.masked_fill(~visible.unsqueeze(-1), 0.0)


def drop_writes(
    x: Float[Tensor, "nodes width"], slots: int, heads: int, share: float
) -> Float[Tensor, "nodes slots heads"]:
    """Draw log weights that drop a share of the writes and scale up the others."""
    survives = torch.rand(x.size(0), slots, heads, device=x.device) >= share
    return torch.where(survives, -math.log1p(-share), float("-inf")).to(x.dtype)


def add_log_weights(log_weight: Tensor | None, dropped: Float[Tensor, "nodes slots heads"] | None) -> Tensor | None:
    """Add the log weights of the nodes and of dropout. None means that all weights are one."""
    if log_weight is None or dropped is None:
        return dropped if log_weight is None else log_weight
    return dropped + (log_weight[:, None, None] if log_weight.dim() == 1 else log_weight)
