"""Nodes -> slots, with learned projections."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mooring import ops
from mooring.nn.addresses import Addresses
from mooring.nn.checks import check_address, check_build, check_features, check_nodes, check_positive
from mooring.nn.part import hide, writers
from mooring.ops import SlotState
from mooring.ops.checks import check_count, count_graphs


def folds_scores(slots: int, heads: int, channels: int) -> bool:
    """Whether folding a projection of the nodes into the slots saves arithmetic.

    Folded, a node costs ``slots * heads * channels``; projected, ``channels * channels`` and then ``slots * channels``.
    """
    return slots * (heads - 1) <= channels


def absorbs(slots: int, heads: int, channels: int, num_nodes: int, num_graphs: int) -> bool:
    """Whether to fold projections into what each graph's slots hold.

    That makes ``slots * heads`` full-width rows of a graph, which pays only where it has as many nodes. Inside a
    compiled graph the number of graphs is not known, and the arithmetic alone decides.
    """
    if not folds_scores(slots, heads, channels):
        return False
    return torch.compiler.is_compiling() or num_nodes >= slots * heads * num_graphs


class SlotWrite(nn.Module):
    r"""Node features -> the :class:`~mooring.ops.SlotState` of every slot, by cross-attention.

    .. math::
        Q = S W_Q, \quad K = X W_K, \quad V = X W_V, \quad
        s = \frac{Q K^\top}{\tau \sqrt d}, \quad \log Z = \operatorname{logsumexp}(s), \quad
        \mu = \operatorname{softmax}_{\text{nodes}}(s) V

    Paper: ``eq:slotread`` up to the output projection; with ``addresses``, the controlled routing of ``app:protocol``.

    Where it is cheaper the projections are folded into the slots, :math:`q^\top (W_K x) = (W_K^\top q)^\top x` (see
    :func:`folds_scores`) and :math:`\sum_i a_i W_V x_i = W_V \sum_i a_i x_i` (see :func:`absorbs`), so that no
    ``nodes x channels x channels`` product is formed. All orders give the same numbers.

    Args:
        channels: width of the node features.
        slots, heads: each head of each slot attends on its own; heads divide channels.
        temperature: the paper's :math:`\tau`; lower is sharper.
        addresses: route by static addresses instead of by content.

    Nodes left out (no source, a multiplicity of zero) have no influence whatever they hold, on values or on gradients.

    Shapes: x ``[nodes, channels]`` -> content ``[graphs, slots, heads, channels / heads]``, log_mass
    ``[graphs, slots, heads]``.

    >>> state = SlotWrite(8, slots=3, heads=2)(torch.randn(5, 8))
    >>> state.content.shape
    torch.Size([1, 3, 2, 4])
    """

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int = 4,
        *,
        temperature: float = 1.0,
        addresses: Addresses | None = None,
    ) -> None:
        super().__init__()
        check_build(type(self).__name__, channels, slots, heads)
        check_positive(type(self).__name__, "temperature", temperature)
        self.channels = channels
        self.heads = heads
        self.temperature = temperature
        self.slots = slots
        self.absorbed: bool | None = None  # by cost; True or False forces an order
        self.addresses = addresses
        if addresses is None:
            self.slot = nn.Parameter(torch.empty(slots, channels))
            self.lin_query = nn.Linear(channels, channels, bias=False)
            self.lin_key = nn.Linear(channels, channels, bias=False)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.addresses is None:
            nn.init.normal_(self.slot)
            nn.init.xavier_uniform_(self.lin_query.weight)
            nn.init.xavier_uniform_(self.lin_key.weight)
        nn.init.xavier_uniform_(self.lin_value.weight)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | None = None,
        *,
        address: Float[Tensor, "nodes address_channels"] | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, " nodes"] | None = None,
        num_graphs: int | None = None,
    ) -> SlotState:
        check_features(self, self.channels, x)
        check_nodes(type(self).__name__, x, batch=batch, sources=sources, log_weight=log_weight)
        check_address(type(self).__name__, address, x, self.address_channels)
        if num_graphs is None:
            num_graphs = 1 if batch is None else count_graphs(batch)
        elif not torch.compiler.is_compiling():
            num_graphs = check_count(type(self).__name__, "num_graphs", num_graphs, least=0)
        absorbed = self.folds(x.size(0), num_graphs)
        writes = writers(sources, log_weight)
        x = hide(x, writes)
        query, key = self.score_parts(x, address, absorbed=self.absorbed)
        heads, dim = self.heads, self.channels // self.heads
        if absorbed:
            # Passing one tensor twice lets the op see that keys and values are the same memory.
            value = key if key.size(-1) == self.channels and address is None else x.unsqueeze(1)
        else:
            value = self.lin_value(x).unflatten(-1, (heads, dim))
        state = ops.write(query, key, value, batch, num_graphs=num_graphs, log_weight=log_weight, where=writes)
        if not absorbed:
            return state
        weight = self.lin_value.weight.unflatten(0, (heads, dim))
        return SlotState(ops.map_heads(state.content.to(weight.dtype), weight), state.log_mass)

    def folds(self, num_nodes: int, num_graphs: int) -> bool:
        """Whether this batch is written with the value projection folded into the slots."""
        if self.absorbed is not None:
            return self.absorbed
        return absorbs(self.slots, self.heads, self.channels, num_nodes, num_graphs)

    @property
    def address_channels(self) -> int | None:
        """Width of the addresses; None where content does the routing."""
        return None if self.addresses is None else self.addresses.address_channels

    def score_parts(self, x: Tensor, address: Tensor | None, *, absorbed: bool | None = None) -> tuple[Tensor, Tensor]:
        """Query ``[slots, heads, a]`` and key ``[nodes, heads or 1, a]`` whose dot products are the scores."""
        if self.addresses is not None:
            assert address is not None, "checked by forward"
            return self.addresses.table(), address.unsqueeze(1)
        heads, dim = self.heads, self.channels // self.heads
        scale = 1.0 / (self.temperature * math.sqrt(dim))
        query = (self.lin_query(self.slot) * scale).unflatten(-1, (heads, dim))
        if folds_scores(self.slots, self.heads, self.channels) if absorbed is None else absorbed:
            weight = self.lin_key.weight.unflatten(0, (heads, dim))
            return torch.einsum("mhd,hdc->mhc", query, weight), x.unsqueeze(1)
        return query, self.lin_key(x).unflatten(-1, (heads, dim))
