"""Physics attention: nodes are sliced by a softmax over slots, and read back with the same weights."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from mooring import ops
from mooring.nn import MemorySpec
from mooring.zoo.base import GlobalModule, Locate, Rows
from mooring.zoo.registry import register

PAPER = "Wu et al. 2024"
# What the paper's temperatures start at.
TEMPERATURE = 0.5


@register("physics-attention", title="Transolver's physics attention", paper=PAPER, label="Physics attention")
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
        self.start = TEMPERATURE * spec.temperature
        self.locate = Locate(spec)
        self.norm = nn.LayerNorm(channels)
        self.lin_place = nn.Linear(channels, channels)
        self.lin_value = nn.Linear(channels, channels)
        self.lin_slice = nn.Linear(dim, spec.slots)
        self.temperature = nn.Parameter(torch.empty(spec.heads))
        self.lin_between = nn.Linear(dim, 3 * dim, bias=False) if between else None
        self.lin_out = nn.Linear(channels, channels)
        self.norm_mlp = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, channels))
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
        state = ops.write(
            query, key, value, writers.index, num_graphs=writers.num_graphs, log_weight=writers.log_weight
        )
        slices = state.content.to(normed.dtype)
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


@register("physics-slices", title="physics attention without attention between slices", paper=PAPER)
def slices_alone(spec: MemorySpec) -> nn.Module:
    return PhysicsAttention(spec, between=False)
