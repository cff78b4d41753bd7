"""Slots that compete for nodes: a softmax over slots, once (as in graph multiset pooling) or in rounds."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotFiLM, SlotRead, SlotWrite
from mooring.nn.addresses import Routes
from mooring.zoo.base import GlobalModule, Rows, SlotRival
from mooring.zoo.registry import register
from mooring.zoo.sum_attention import MagnitudeUpdate


def competition_scores(scores: Float[Tensor, "nodes slots heads"]) -> tuple[Tensor, Tensor]:
    r"""Return query and key whose dot product is :math:`\log \operatorname{softmax}_{\text{slots}}(s)`.

    The query is one-hot per slot and the key contains a node's logarithms. :func:`mooring.ops.write` then returns the
    mean of Slot Attention as its content and the sum of GMT as its total.
    """
    slots, heads = scores.shape[1:]
    query = torch.eye(slots, dtype=scores.dtype, device=scores.device).unsqueeze(1).expand(-1, heads, -1)
    return query, scores.log_softmax(dim=1).transpose(1, 2)


class SlotSoftmaxWrite(SlotWrite):
    r"""Write in which each node distributes one unit of mass over the slots by a softmax."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, temperature=spec.temperature, addresses=addresses)
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


ROUNDS = 3


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

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        rounds: number of refinement rounds.

    An empty graph's slots are updated with a mean of zero.
    """

    def __init__(self, spec: MemorySpec, rounds: int = ROUNDS) -> None:
        super().__init__(spec, address=True)
        channels, hidden = spec.channels, spec.hidden
        self.heads, self.rounds = spec.heads, rounds
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
            state = ops.write(
                query, key, value, writers.index, num_graphs=writers.num_graphs, log_weight=writers.log_weight
            )
            mean = state.content.flatten(-2).to(slots.dtype)
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
