"""Static slot addresses and the one projection that both directions of routing share."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn.checks import check_positive, shown
from mooring.ops.checks import check_count, described


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
        return shown(self, Addresses, self.address_channels, slots=slots, heads=heads, dim=dim)


def check_addresses(who: str, addresses: Any, slots: int, heads: int, temperature: float) -> None:
    """Addresses, of as many slots and heads, that have the temperature of the scores themselves."""
    if addresses is None:
        return
    if not isinstance(addresses, Addresses):
        raise TypeError(
            f"{who}: addresses is {described(addresses)} but Addresses or None was expected. Pass "
            "mooring.nn.Addresses(address_channels, slots, heads, dim)."
        )
    have = tuple(addresses.slot.shape[:2])
    if have != (slots, heads):
        raise ValueError(
            f"{who}: addresses are those of (slots, heads) = {have} but slots={slots} and heads={heads}. Build both "
            "with the same numbers."
        )
    if temperature not in (1.0, addresses.temperature):
        raise ValueError(
            f"{who}: temperature={temperature} has no effect, since scores by address have that of addresses, "
            f"{addresses.temperature}. Build Addresses with temperature={temperature}."
        )
