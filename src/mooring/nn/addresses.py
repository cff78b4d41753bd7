"""Static slot addresses, the projection shared by writes and reads, and the three kinds of routing."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn.checks import check_choice, check_positive, shown
from mooring.nn.masked_batch_norm import MaskedBatchNorm
from mooring.nn.masks import hide
from mooring.nn.memory import call_gathered
from mooring.ops import Plan
from mooring.ops.backend import ScoredOps, select_for_scores
from mooring.ops.checks import check_count, described
from mooring.ops.state import full_precision, statistics_dtype

Routing = Literal["given", "self", "free"]
AddressNorm = Literal["layer", "batch"]
ROUTINGS, ADDRESS_NORMS = get_args(Routing), get_args(AddressNorm)
DEFAULT_ROUTING: Routing = "self"
# At initialisation the scores of self-addressed nodes have a standard deviation of one over the temperature.
TEMPERATURES: dict[str, float] = {"given": 1.0, "self": 0.25, "free": 1.0}
# The temperature of the softest head of self-addressed slots, as a multiple of the sharpest head's.
SPREAD = 8.0


class Routes(NamedTuple):
    """Both sides of the scores, ``score[n, m, h] = slot[m, h] . node[n, h]``, shared by write and read.

    Args:
        slot: ``[slots, heads, width]``.
        node: ``[nodes, 1, width]``.
        scores: ``[nodes, slots * heads]``, if already computed.
        backend: the back end that takes these scores.
    """

    slot: Tensor
    node: Tensor
    scores: Tensor | None = None
    backend: ScoredOps | None = None

    def hidden(self, visible: Bool[Tensor, " nodes"] | None) -> Routes:
        """Return the routes with zeros for nodes outside a mask."""
        return self if visible is None else Routes(self.slot, self.node.masked_fill(~visible[:, None, None], 0.0))

    def pick(self, rows: Tensor) -> Routes:
        """Return the routes of some of the nodes."""
        scores = None if self.scores is None else self.scores.index_select(0, rows)
        return Routes(self.slot, self.node.index_select(0, rows), scores, self.backend)

    def scored(self, plan: Plan) -> Routes:
        """Compute the scores once for the write and the read, if that is faster."""
        table, node = self.slot.flatten(0, 1), self.node.squeeze(1)
        backend = select_for_scores(plan, table.size(0), table, node)
        if backend is None:
            return self
        dtype = statistics_dtype(node.dtype)
        with full_precision(node.device):
            return self._replace(scores=node.to(dtype) @ table.to(dtype).t(), backend=backend)


class Addresses(nn.Module):
    r"""Raw addresses of nodes -> scores against static slot addresses, shared by writes and reads.

    .. math::
        s_{im} = \frac{(W a_i)^\top b_m}{\tau \sqrt d}

    Dynamic content is never an address, so the content of a slot cannot change who writes or reads it.

    Paper: ``prop:routing``, ``app:protocol`` (identifier embeddings projected into a shared address space).
    Departs: the paper gives temperature and shared space but not the score. The scaled dot product of ``eq:slotread``,
    unlike a cosine, can sharpen the routing by its norms.

    Args:
        address_channels: width of the raw addresses.
        slots, heads: number of slot addresses, separate for each head.
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
        """Return the slot addresses with projection and scale folded in.

        Their dot products with raw addresses are the scores. ``slot`` replaces the slot addresses of the module.
        """
        return torch.einsum("mhd,hda->mha", (self.slot if slot is None else slot) * self._scale(), self.weight)

    def _scale(self) -> float | Float[Tensor, "heads 1"]:
        return 1.0 / (self.temperature * math.sqrt(self.slot.size(-1)))

    def routes(
        self,
        x: Float[Tensor, "nodes channels"],
        address: Float[Tensor, "nodes address_channels"] | None,
        slot: Float[Tensor, "slots heads dim"] | None = None,
        part: Bool[Tensor, " nodes"] | None = None,
    ) -> Routes:
        """Return both sides of the scores. Subclasses may use the features ``x`` as addresses.

        Args:
            part: the nodes that write or read; None means all.
        """
        assert address is not None, "checked by the caller"
        return Routes(self.table(slot), address.unsqueeze(1))

    def __repr__(self) -> str:
        slots, heads, dim = self.slot.shape
        return shown(self, Addresses, self.address_channels, slots=slots, heads=heads, dim=dim)


class SelfAddresses(Addresses):
    r"""Node states -> scores against static slot addresses; the standardised state of a node is its address.

    .. math::
        s_{im} = \frac{(W \operatorname{LN}(h_i))^\top b_m}{\tau_h \sqrt d}, \qquad
        \tau_h = \tau \, 8^{h / (H - 1)}

    From the first update on a node reads the slots it wrote to, and slots start as different buckets of the nodes.
    Heads differ in temperature: the sharpest head separates nodes, the softest head is close to a mean over all nodes.

    Args:
        channels: width of the node states.
        slots, heads, dim: as in :class:`Addresses`.
        temperature: :math:`\tau` of the sharpest head.
        norm: ``"layer"`` standardises each state by itself. ``"batch"`` standardises each channel over the nodes of a
            batch that write or read. What all states share then does not affect the routing; after message passing the
            nodes of a graph share much, and would all use the same few slots. As in every batch norm, training then
            depends on the batch; evaluation does not.

    >>> SelfAddresses(8, slots=3, heads=2, dim=4).routes(torch.randn(5, 8), None).node.shape
    torch.Size([5, 1, 8])
    """

    sharpness: Tensor

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int,
        dim: int,
        temperature: float = TEMPERATURES["self"],
        norm: AddressNorm = "layer",
    ) -> None:
        check_choice(type(self).__name__, "norm", norm, ADDRESS_NORMS)
        super().__init__(channels, slots, heads, dim, temperature)
        self.norm = MaskedBatchNorm(channels, affine=False) if norm == "batch" else None
        self.register_buffer("sharpness", self._sharpness(), persistent=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "sharpness"):  # uninitialised after to_empty
            self.sharpness.copy_(self._sharpness())
            reset(self.norm)

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
        part: Bool[Tensor, " nodes"] | None = None,
    ) -> Routes:
        standard = nn.functional.layer_norm(x, x.shape[-1:]) if self.norm is None else self.norm(x, part)
        return Routes(self.table(slot), standard.to(x.dtype).unsqueeze(1))


def choose_routing(who: str, routing: Any, address_channels: int | None) -> Routing:
    """Check the arguments for the routing and return the routing.

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
    return cast(Routing, routing)


def build_addresses(
    routing: Routing,
    address_channels: int | None,
    channels: int,
    slots: int,
    heads: int,
    temperature: float,
    norm: AddressNorm = "layer",
) -> Addresses | None:
    """Build the slot addresses of a routing; None if content does the routing."""
    if routing == "self":
        return SelfAddresses(channels, slots, heads, channels // heads, temperature, norm)
    if address_channels is None:
        return None
    return Addresses(address_channels, slots, heads, channels // heads, temperature)


def route(
    addresses: Addresses,
    x: Tensor,
    address: Tensor | Routes | None,
    slot: Tensor | None = None,
    part: Tensor | None = None,
) -> Routes:
    """Compute the routes of nodes, unless ``address`` already is a :class:`Routes`."""
    if isinstance(address, Routes):
        return address
    return cast(Routes, call_gathered(addresses, "routes", x, address, slot, part))


def check_address_norm(who: str, norm: Any, routing: Routing) -> None:
    """Raise if the norm is unknown or has no effect with the routing."""
    check_choice(who, "address_norm", norm, ADDRESS_NORMS)
    if norm != "layer" and routing != "self":
        raise ValueError(
            f"{who}: address_norm={norm!r} has no effect with routing={routing!r}, since only self-addressed nodes are "
            "normalised. Leave it out, or pass routing='self'."
        )


def hide_address(address: Tensor | Routes | None, visible: Tensor | None) -> Tensor | Routes | None:
    """Zero the addresses of nodes outside a mask."""
    if address is None or visible is None:
        return address
    return address.hidden(visible) if isinstance(address, Routes) else hide(address, visible)


def check_addresses(who: str, addresses: Any, slots: int, heads: int, temperature: float) -> None:
    """Check that addresses have as many slots and heads as the module, and its temperature."""
    if addresses is None:
        return
    if not isinstance(addresses, Addresses):
        raise TypeError(
            f"{who}: addresses is {described(addresses)} but Addresses or None was expected. Pass "
            "mooring.nn.Addresses(address_channels, slots, heads, dim)."
        )
    sizes = tuple(addresses.slot.shape[:2])
    if sizes != (slots, heads):
        raise ValueError(
            f"{who}: addresses were built with (slots, heads) = {sizes} but slots={slots} and heads={heads}. Build "
            "both with the same numbers."
        )
    if temperature not in (1.0, addresses.temperature):
        raise ValueError(
            f"{who}: temperature={temperature} has no effect, since scores by address have that of addresses, "
            f"{addresses.temperature}. Build Addresses with temperature={temperature}."
        )
