"""A softmax over slots: graph multiset pooling, Slot Attention in rounds, and physics attention."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotFiLM, SlotRead
from mooring.nn.addresses import Routes
from mooring.zoo.base import GlobalModule, Locate, RivalWrite, Rows, SlotRival, mlp
from mooring.zoo.counting import MagnitudeUpdate
from mooring.zoo.registry import register

ROUNDS = 3
TRANSOLVER = "Wu et al. 2024"


def competition_scores(scores: Float[Tensor, "nodes slots heads"]) -> tuple[Tensor, Tensor]:
    r"""Return query and key whose dot product is :math:`\log \operatorname{softmax}_{\text{slots}}(s)`.

    The query is one-hot per slot and the key contains a node's logarithms. :func:`mooring.ops.write` then returns the
    mean of Slot Attention as its content and the sum of GMT as its total.
    """
    slots, heads = scores.shape[1:]
    query = torch.eye(slots, dtype=scores.dtype, device=scores.device).unsqueeze(1).expand(-1, heads, -1)
    return query, scores.log_softmax(dim=1).transpose(1, 2)


class SlotSoftmaxWrite(RivalWrite):
    r"""Write in which each node distributes one unit of mass over the slots by a softmax."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(replace(spec, competition=False), addresses)
        # The softmax needs a node's scores for all slots at once, so the projection cannot be folded into the slots.
        self.folded = False

    def score_parts(
        self, x: Tensor, address: Tensor | Routes | None, slots: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if slots is not None and self.addresses is None:
            raise ValueError("gmt: takes no memory of the layer before. Build the model with carry=False.")
        query, key = super().score_parts(x, address, slots)
        return competition_scores(torch.einsum("mhd,nhd->nmh", query, key.expand(-1, self.heads, -1)))


@register("gmt", title="softmax over slots, sums over nodes", paper="Baek et al. 2021; Li et al. 2024")
class SlotSoftmaxVirtualNode(SlotRival):
    r"""Slots that store :math:`\sum_i a_{im} v_i`: mass over nodes is preserved, so they count.

    Paper: the clusters of GMT (Baek et al. 2021, arXiv 2102.11533, in its authors' code) and Neural Atoms
    (Li et al. 2024, arXiv 2311.01276).
    Departs: no attention between the slots, no graph structure in the scores; ``asinh`` is applied to the sum, see
    :class:`MagnitudeUpdate`. PyG's ``GraphMultisetTransformer`` has its softmax over the nodes and does not count.

    Slots always compete, without a null slot.
    """

    ignores = SlotRival.ignores | {"competition"}

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.takes_memory = spec.address_channels is not None
        self.write = SlotSoftmaxWrite(spec, self.write.addresses)
        self.update = MagnitudeUpdate(spec, total=True)


@register("gmt-mass", title="softmax over slots, mean and mass apart", paper="Baek et al. 2021, with our update")
class SlotSoftmaxMassVirtualNode(SlotRival):
    r"""Slots of ``gmt`` that store the mean and the mass of :math:`\sum_i a_{im} v_i` apart, like anchored slots.

    It separates two things that distinguish the moored module from ``gmt``: the separate mass, and the null slot.

    Slots always compete, without a null slot.
    """

    ignores = frozenset({"competition"})

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, anchored=True, competition=False)
        self.takes_memory = spec.address_channels is not None
        self.write = SlotSoftmaxWrite(spec, self.write.addresses)


@register("slot-attention", title=f"Slot Attention, {ROUNDS} rounds", paper="Locatello et al. 2020")
class SlotAttention(GlobalModule):
    r"""Slots that compete for nodes by a softmax over slots, normalised over nodes and followed by a GRU.

    .. math::
        a_{im} = \operatorname{softmax}_m \frac{k_i^\top q_m}{\tau \sqrt d}, \qquad
        \mu_m = \frac{\sum_i a_{im} v_i}{\sum_i a_{im}}, \qquad
        z_m \leftarrow z' + \operatorname{MLP}(\operatorname{LN}(z')), \quad z' = \operatorname{GRU}(\mu_m, z_m)

    The second normalisation removes the counts.

    Paper: Locatello et al. 2020 (arXiv 2006.15055).
    Departs: initial slots are learned, not drawn from a learned normal distribution, so that the module is
    deterministic; several heads; nodes read the slots using :class:`~mooring.nn.SlotRead` and
    :class:`~mooring.nn.SlotFiLM`. Addresses, if given, fix the assignment, and the rounds refine the content only.

    An empty graph's slots are updated with a mean of zero.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        channels, hidden = spec.channels, spec.hidden
        self.heads, self.rounds = spec.heads, ROUNDS
        self.scale = 1.0 / (spec.temperature * math.sqrt(channels // spec.heads))
        self.slot = nn.Parameter(torch.empty(spec.slots, channels))
        self.addresses: Addresses | None = None
        if spec.address_channels is not None:
            dim = channels // spec.heads
            self.addresses = Addresses(spec.address_channels, spec.slots, spec.heads, dim, spec.temperature)
        else:
            self.lin_query = nn.Linear(channels, channels, bias=False)
            self.lin_key = nn.Linear(channels, channels, bias=False)
            self.norm_slot = nn.LayerNorm(channels)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.norm_x, self.norm_mlp = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.gru = nn.GRUCell(channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))
        scores = {"temperature": spec.temperature} if self.addresses is None else {"by_address": True}
        self.read = SlotRead(channels, spec.slots, spec.heads, out_channels=hidden, **scores)
        self.integrate = SlotFiLM(channels, hidden, init_std=spec.init_std)
        nn.init.normal_(self.slot)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.slot)
        super().reset_parameters()

    def gather(self, writers: Rows) -> Tensor:
        x = self.norm_x(writers.x)
        value = self.lin_value(x).unflatten(-1, (self.heads, -1))
        slots = self.slot.expand(writers.num_graphs, -1, -1)
        for _ in range(self.rounds):
            query, key = competition_scores(self._scores(x, slots, writers))
            mean = writers.write(query, key, value).content.flatten(-2).to(slots.dtype)
            slots = self.gru(mean.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots

    def _scores(self, x: Tensor, slots: Tensor, writers: Rows) -> Tensor:
        if self.addresses is not None:
            return torch.einsum("mha,na->nmh", self.addresses.table(), writers.address)
        query = self.lin_query(self.norm_slot(slots)).unflatten(-1, (self.heads, -1)) * self.scale
        key = self.lin_key(x).unflatten(-1, (self.heads, -1))
        return torch.einsum("nmhd,nhd->nmh", query[writers.index], key)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        routes = None if self.addresses is None else self.addresses.routes(readers.x, readers.address)
        context = self.read(readers.x, gathered, readers.index, address=routes)
        return self.integrate(readers.x, context, gathered, readers.index)


@register("physics-attention", title="Transolver's physics attention", paper=TRANSOLVER, label="Physics attention")
class PhysicsAttention(GlobalModule):
    r"""Nodes -> slices -> nodes, head by head, in a pre-norm block with an MLP behind it.

    .. math::
        w_{im} = \operatorname{softmax}_m \frac{(W_S\, p_i + b)_m}{\tau}, \qquad
        z_m = \frac{\sum_i w_{im} v_i}{\sum_i w_{im}}, \qquad
        z' = \operatorname{attention}(z), \qquad
        x_i' = x_i + W_O \sum_m w_{im} z_m'

    with :math:`p_i` and :math:`v_i` linear in the normalised node, and a learned temperature :math:`\tau` per head. The
    slices are shared by all heads, and so are the maps of the attention between them. The division by the mass of a
    slice makes it blind to how many nodes are in it.

    Paper: Transolver, Wu et al. 2024 (arXiv 2402.02366).
    Departs: batches are ragged; no :math:`10^{-5}` in the denominator; no dropout. ``temperature`` of the spec scales
    the initial one. Addresses are added to the features.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`; ``slots`` is the number of slices, ``hidden_channels`` the hidden
            width of the block's MLP.
        between: let the slices attend to each other.

    An empty graph has slices of zeros.
    """

    def __init__(self, spec: MemorySpec, between: bool = True) -> None:
        super().__init__(spec, address=True)
        channels, dim = spec.channels, spec.channels // spec.heads
        self.heads, self.slots = spec.heads, spec.slots
        # The paper's temperatures start at one half.
        self.start = 0.5 * spec.temperature
        self.locate = Locate(spec)
        self.norm = nn.LayerNorm(channels)
        self.lin_place = nn.Linear(channels, channels)
        self.lin_value = nn.Linear(channels, channels)
        self.lin_slice = nn.Linear(dim, spec.slots)
        self.temperature = nn.Parameter(torch.empty(spec.heads))
        self.lin_between = nn.Linear(dim, 3 * dim, bias=False) if between else None
        self.lin_out = nn.Linear(channels, channels)
        self.norm_mlp = nn.LayerNorm(channels)
        self.mlp = mlp(channels, spec.hidden, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.temperature, self.start)
        nn.init.orthogonal_(self.lin_slice.weight)

    def gather(self, writers: Rows) -> Float[Tensor, "graphs slots channels"]:
        normed = self.norm(self.locate(writers))
        query, key = self._scores(normed)
        # One more coordinate takes the softmax's denominator from every score, so that a node's weights sum to one.
        total = torch.einsum("mhd,nhd->nhm", query, key).logsumexp(dim=-1, keepdim=True)
        query, key = pad(query, (0, 1), value=1.0), torch.cat([key, -total], dim=-1)
        value = self.lin_value(normed).unflatten(-1, (self.heads, -1))
        slices = writers.write(query, key, value).content.to(normed.dtype)
        if self.lin_between is not None:
            query, key, value = self.lin_between(slices.transpose(1, 2)).chunk(3, dim=-1)
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
            slices = (scores.softmax(dim=-1) @ value).transpose(1, 2)
        return slices.flatten(-2)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        key, query = self._scores(self.norm(self.locate(readers)))
        value = gathered.unflatten(-1, (self.heads, -1))
        context = ops.read(query, key, value, readers.index).to(readers.x.dtype)
        x = readers.x + self.lin_out(context.flatten(1))
        out: Tensor = x + self.mlp(self.norm_mlp(x))
        return out

    def _scores(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Slices ``[slots, heads, dim + 1]`` and nodes ``[nodes, heads, dim + 1]`` whose product is the score."""
        place = self.lin_place(normed).unflatten(-1, (self.heads, -1))
        table = torch.cat([self.lin_slice.weight, self.lin_slice.bias.unsqueeze(1)], dim=1)
        # Beside the bias stands a one in every node.
        return table.unsqueeze(1) / self.temperature.view(1, -1, 1), pad(place, (0, 1), value=1.0)


register("physics-slices", title="physics attention without attention between slices", paper=TRANSOLVER)(
    lambda spec: PhysicsAttention(spec, between=False)
)
