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


def readers(
    x: Float[Tensor, "nodes channels"],
    address: Float[Tensor, "nodes address_channels"] | None,
    writes: Bool[Tensor, " nodes"] | None,
    targets: Bool[Tensor, " nodes"] | None,
) -> Bool[Tensor, " nodes"] | None:
    """The nodes that read: targets, less those that do not write and hold NaN or infinity. None means all.

    Such a node has no valid query. Its output could only be NaN, and so would be the gradients of everything it read,
    even where no loss depends on it.
    """
    if writes is None:
        return targets
    sound = writes | x.isfinite().all(dim=-1)
    if address is not None:
        sound = sound & (writes | address.isfinite().all(dim=-1))
    if readable(sound) and bool(sound.all()):
        return targets
    return sound if targets is None else sound & targets


def hide(tensor: Float[Tensor, "nodes width"], seen: Bool[Tensor, " nodes"] | None) -> Float[Tensor, "nodes width"]:
    """Zero in place of the rows that must not be seen, whatever they hold; their gradient is zero."""
    return tensor if seen is None else tensor.masked_fill(~seen.unsqueeze(-1), 0.0)


def drop_writes(
    x: Float[Tensor, "nodes width"],
    log_weight: Float[Tensor, "nodes *rows"] | None,
    rows: tuple[int, int],
    share: float,
) -> Float[Tensor, "nodes slots heads"]:
    """Weights that drop a share of the writes and scale the others up; ``rows`` are slots and heads."""
    kept = torch.rand(x.size(0), *rows, device=x.device) >= share
    bias = torch.where(kept, -math.log1p(-share), float("-inf")).to(x.dtype)
    if log_weight is None:
        return bias
    return bias + (log_weight[:, None, None] if log_weight.dim() == 1 else log_weight)
