"""Static slot addresses, the projection that writes and reads share, and the three kinds of routing."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mooring.nn.checks import check_choice, check_positive, shown
from mooring.nn.masks import hide
from mooring.nn.memory import gathered
from mooring.ops import Plan, backend
from mooring.ops.checks import check_count, described
from mooring.ops.state import full_precision, statistics_dtype

Routing = Literal["given", "self", "free"]
ROUTINGS = get_args(Routing)
DEFAULT_ROUTING: Routing = "self"
# At the start the scores of self-addressed nodes have a deviation of one over the temperature.
TEMPERATURES: dict[str, float] = {"given": 1.0, "self": 0.25, "free": 1.0}
# The temperature of the softest head of self-addressed slots, as a multiple of the sharpest head's.
SPREAD = 8.0


class Routes(NamedTuple):
    """The two sides of the scores, ``score[n, m, h] = slot[m, h] . node[n, h]``; writes and reads share them.

    Args:
        slot: ``[slots, heads, width]``.
        node: ``[nodes, 1, width]``.
        scores: ``[nodes, slots * heads]``, if they were computed already.
        code: the back end that they were computed for.
    """

    slot: Tensor
    node: Tensor
    scores: Tensor | None = None
    code: backend.ScoredCode | None = None

    def hidden(self, seen: Bool[Tensor, " nodes"] | None) -> Routes:
        """Put zeros in place of the nodes that must not be seen."""
        return self if seen is None else Routes(self.slot, self.node.masked_fill(~seen[:, None, None], 0.0))

    def pick(self, rows: Tensor) -> Routes:
        """Return the routes of some of the nodes."""
        scores = None if self.scores is None else self.scores.index_select(0, rows)
        return Routes(self.slot, self.node.index_select(0, rows), scores, self.code)

    def scored(self, plan: Plan) -> Routes:
        """Compute the scores once for the write and the read, if that is faster."""
        table, node = self.slot.flatten(0, 1), self.node.squeeze(1)
        code = backend.for_scores(plan, table.size(0), table, node)
        if code is None:
            return self
        dtype = statistics_dtype(node.dtype)
        with full_precision(node.device):
            return self._replace(scores=node.to(dtype) @ table.to(dtype).t(), code=code)


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

    def table(
        self, slot: Float[Tensor, "slots heads dim"] | None = None
    ) -> Float[Tensor, "slots heads address_channels"]:
        """Absorb projection and scale into the slot addresses, those of the module unless ``slot`` is given.

        The dot products of the result with raw addresses are the scores.
        """
        return torch.einsum("mhd,hda->mha", (self.slot if slot is None else slot) * self._scale(), self.weight)

    def _scale(self) -> float | Float[Tensor, "heads 1"]:
        return 1.0 / (self.temperature * math.sqrt(self.slot.size(-1)))

    def routes(
        self,
        x: Float[Tensor, "nodes channels"],
        address: Float[Tensor, "nodes address_channels"] | None,
        slot: Float[Tensor, "slots heads dim"] | None = None,
    ) -> Routes:
        """Return both sides of the scores. The nodes' features ``x`` are their addresses in a subclass."""
        assert address is not None, "checked by the caller"
        return Routes(self.table(slot), address.unsqueeze(1))

    def __repr__(self) -> str:
        slots, heads, dim = self.slot.shape
        return shown(self, Addresses, self.address_channels, slots=slots, heads=heads, dim=dim)


class SelfAddresses(Addresses):
    r"""Node states -> scores against static slot addresses: each node's standardised state is its address.

    .. math::
        s_{im} = \frac{(W \operatorname{LN}(h_i))^\top b_m}{\tau_h \sqrt d}, \qquad
        \tau_h = \tau \, 8^{h / (H - 1)}

    A node reads where it wrote from the first update on, and slots start as different buckets of the nodes. Heads
    differ in temperature: the sharpest one tells nodes apart, the softest one is close to a mean over all nodes.

    Args:
        channels: width of the node states.
        slots, heads, dim: as in :class:`Addresses`.
        temperature: :math:`\tau` of the sharpest head.

    >>> SelfAddresses(8, slots=3, heads=2, dim=4).routes(torch.randn(5, 8), None).node.shape
    torch.Size([5, 1, 8])
    """

    sharpness: Tensor

    def __init__(
        self, channels: int, slots: int, heads: int, dim: int, temperature: float = TEMPERATURES["self"]
    ) -> None:
        super().__init__(channels, slots, heads, dim, temperature)
        self.register_buffer("sharpness", self._sharpness(), persistent=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "sharpness"):  # after to_empty it holds anything
            self.sharpness.copy_(self._sharpness())

    def _sharpness(self) -> Float[Tensor, "heads 1"]:
        heads = self.slot.size(1)
        return torch.tensor([[SPREAD ** (-head / max(heads - 1, 1))] for head in range(heads)])

    def _scale(self) -> Tensor:
        return self.sharpness / (self.temperature * math.sqrt(self.slot.size(-1)))

    def routes(
        self,
        x: Float[Tensor, "nodes channels"],
        address: Float[Tensor, "nodes channels"] | None = None,
        slot: Float[Tensor, "slots heads dim"] | None = None,
    ) -> Routes:
        return Routes(self.table(slot), nn.functional.layer_norm(x, x.shape[-1:]).to(x.dtype).unsqueeze(1))


def choose_routing(who: str, routing: Any, address_channels: int | None) -> Routing:
    """Return the routing of a module built with these arguments.

    >>> choose_routing("SlotVirtualNode", None, address_channels=8)
    'given'
    """
    if routing is None:
        return DEFAULT_ROUTING if address_channels is None else "given"
    check_choice(who, "routing", routing, ROUTINGS, "None")
    if routing == "given" and address_channels is None:
        raise ValueError(
            f"{who}: routing='given' needs the width of the addresses. Pass address_channels, or routing='self'."
        )
    if routing != "given" and address_channels is not None:
        raise ValueError(
            f"{who}: address_channels={address_channels} has no effect with routing={routing!r}. Leave one of them out."
        )
    chosen: Routing = routing
    return chosen


def route(addresses: Addresses, x: Tensor, address: Tensor | Routes | None, slot: Tensor | None = None) -> Routes:
    """Return the routes of nodes, unless ``address`` holds them already."""
    return address if isinstance(address, Routes) else cast(Routes, gathered(addresses, "routes", x, address, slot))


def hide_address(address: Tensor | Routes | None, seen: Tensor | None) -> Tensor | Routes | None:
    """Put zeros in place of the addresses of nodes that must not be seen."""
    if address is None or seen is None:
        return address
    return address.hidden(seen) if isinstance(address, Routes) else hide(address, seen)


def address_width(addresses: Addresses | None) -> int | None:
    """Return the width of the addresses that a forward pass expects; None if it expects none."""
    return None if addresses is None or isinstance(addresses, SelfAddresses) else addresses.address_channels


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
