"""Static slot addresses and the one projection that both directions of routing share."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn.checks import check_positive
from mooring.ops.checks import check_count


class Addresses(nn.Module):
    r"""Raw addresses of nodes -> scores against static slot addresses, the same for writes and reads.

    .. math::
        s_{im} = \frac{(W a_i)^\top b_m}{\tau \sqrt d}

    Dynamic content is never an address: what is stored cannot change where it is stored or found.

    Paper: ``prop:routing``, ``app:protocol`` (identifier embeddings projected into a shared address space).
    Departs: the paper gives temperature and shared space but not the score; we take the scaled dot product of
    ``eq:slotread``, whose norms are free to sharpen the routing, not a cosine.

    Args:
        address_channels: width of the raw addresses.
        slots, heads: number of slot addresses; each head has its own.
        dim: width of the shared address space, per head.
        temperature: the paper's :math:`\tau`.

    >>> Addresses(8, slots=3, heads=2, dim=4).table().shape
    torch.Size([3, 2, 8])
    """

    def __init__(self, address_channels: int, slots: int, heads: int, dim: int, temperature: float = 1.0) -> None:
        super().__init__()
        who = type(self).__name__
        for name, count in (("address_channels", address_channels), ("slots", slots), ("heads", heads), ("dim", dim)):
            check_count(who, name, count)
        check_positive(who, "temperature", temperature)
        self.address_channels = address_channels
        self.temperature = temperature
        self.slot = nn.Parameter(torch.empty(slots, heads, dim))
        self.weight = nn.Parameter(torch.empty(heads, dim, address_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.slot)
        nn.init.normal_(self.weight, std=self.address_channels**-0.5)

    def table(self) -> Float[Tensor, "slots heads address_channels"]:
        """The slot addresses with projection and scale absorbed: dot it with raw addresses to get scores."""
        scale = 1.0 / (self.temperature * math.sqrt(self.slot.size(-1)))
        return torch.einsum("mhd,hda->mha", self.slot * scale, self.weight)

    def __repr__(self) -> str:
        slots, heads, dim = self.slot.shape
        return f"{type(self).__name__}({self.address_channels}, slots={slots}, heads={heads}, dim={dim})"
