"""The write: nodes -> slots, with learned projections."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mooring import ops
from mooring.nn.addresses import Addresses, Routes, SelfAddresses, check_addresses, hide_address, route
from mooring.nn.checks import check_address, check_build, check_input, check_like_nodes, check_positive, shown
from mooring.nn.masks import add_log_weights, hide, writers
from mooring.nn.memory import is_sharded
from mooring.ops import SlotState
from mooring.ops.checks import check_flag
from mooring.ops.plan import Plan
from mooring.ops.write import write_planned, write_scored


class SlotWrite(nn.Module):
    r"""Node features -> the :class:`~mooring.ops.SlotState` of every slot, by cross-attention.

    .. math::
        Q = S W_Q, \quad K = X W_K, \quad V = X W_V, \quad
        s = \frac{Q K^\top}{\tau \sqrt d}, \quad \log Z = \operatorname{logsumexp}(s), \quad
        \mu = \operatorname{softmax}_{\text{nodes}}(s) V

    Paper: ``eq:slotread`` up to the output projection; with ``addresses``, the controlled routing of ``app:protocol``.

    If it is cheaper, the projections are folded into the slots, :math:`q^\top (W_K x) = (W_K^\top q)^\top x` and
    :math:`\sum_i a_i W_V x_i = W_V \sum_i a_i x_i`, and no ``nodes x channels x channels`` product is formed. A
    projection that is not a plain ``nn.Linear`` (an adapter, hooks, quantised weights) is always called.

    Args:
        channels: width of the node features.
        slots, heads: each head of each slot attends separately; heads divide channels.
        temperature: the paper's :math:`\tau`; lower is sharper.
        addresses: route by static addresses instead of by content.
        competition: let the slots compete for each node. In every head a node distributes one unit over the slots and a
            null slot, which has a learned logit and is discarded. Masses are then soft counts. A log weight multiplies
            the unit and does not enter the competition. See :func:`mooring.ops.compete`.

    Nodes that are not sources, or have multiplicity zero, influence neither values nor gradients, even if they are NaN.

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
        competition: bool = False,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_build(who, channels, slots, heads)
        check_positive(who, "temperature", temperature)
        check_addresses(who, addresses, slots, heads, temperature)
        competition = check_flag(who, "competition", competition)
        self.channels = channels
        self.heads = heads
        self.temperature = temperature
        self.slots = slots
        self.folded: bool | None = None  # None decides by cost
        self.addresses = addresses
        if addresses is None:
            self.slot = nn.Parameter(torch.empty(slots, channels))
            self.lin_query = nn.Linear(channels, channels, bias=False)
            self.lin_key = nn.Linear(channels, channels, bias=False)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.null_logit = nn.Parameter(torch.empty(heads)) if competition else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.addresses is None:
            nn.init.normal_(self.slot)
            nn.init.xavier_uniform_(self.lin_query.weight)
            nn.init.xavier_uniform_(self.lin_key.weight)
        nn.init.xavier_uniform_(self.lin_value.weight)
        if self.null_logit is not None:
            nn.init.zeros_(self.null_logit)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Float[Tensor, "nodes address_channels"] | Routes | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, "nodes *rows"] | None = None,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        slots: Float[Tensor, "*graphs slots channels"] | None = None,
        dropped: Float[Tensor, "nodes slots heads"] | None = None,
    ) -> SlotState:
        """Return the state of every slot.

        Args:
            batch: graph id of each node; pass a :class:`~mooring.ops.Plan` only after checking all arguments.
            address: raw address of each node, or the :class:`Routes` computed from it.
            slots: slots of an earlier layer, used in place of the learned ones.
            dropped: log weights of dropout, added to the scores.
        """
        if not isinstance(batch, Plan):
            check_address(type(self).__name__, address, x, self.address_channels)
            masks: dict[str, Any] = {"sources": sources, "log_weight": log_weight, "rows": (self.slots, self.heads)}
            batch = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **masks)
            if slots is not None:
                self._check_slots(slots, x, batch.num_graphs)
        writes = writers(sources, log_weight)
        x = hide(x, writes)
        folded = self._folds_values(x.size(0), batch.num_graphs)
        bias = add_log_weights(log_weight, dropped)
        weights: dict[str, Any] = {"log_weight": bias, "where": writes, "null_logit": self.null_logit}
        if folded and isinstance(address, Routes) and address.backend is not None:
            scores, shape = cast(Tensor, address.scores), (self.slots, self.heads)
            return self._project(write_scored(address.backend, scores, x, shape, batch, **weights))
        query, key = self.score_parts(x, hide_address(address, writes), slots)
        heads, dim = self.heads, self.channels // self.heads
        if folded:
            # If keys and values are one tensor, the op reads it once.
            value = key if self.addresses is None and self._folds_keys() else x.unsqueeze(1)
        else:
            value = self.lin_value(x).unflatten(-1, (heads, dim))
        state = write_planned(query, key, value, batch, **weights)
        return self._project(state) if folded else state

    def _project(self, state: SlotState) -> SlotState:
        """Project the content of slots that were written with unprojected nodes."""
        weight = self.lin_value.weight.unflatten(0, (self.heads, -1))
        return SlotState(ops.map_heads(state.content, weight), state.log_mass)

    def _check_slots(self, slots: Tensor, x: Tensor, num_graphs: int) -> None:
        who, shape = type(self).__name__, (self.slots, self.channels)
        check_like_nodes(who, "slots", slots, x)
        # Under tracing the number of graphs is symbolic.
        graphs = slots.shape[:-2] if torch.compiler.is_compiling() else (num_graphs,) * (slots.dim() > 2)
        if slots.dim() not in (2, 3) or tuple(slots.shape) != (*graphs, *shape):
            raise ValueError(
                f"{who}: slots has shape {tuple(slots.shape)} but [graphs, slots, channels] = "
                f"{[num_graphs, *shape]} was expected. Pass the slots of the same batch."
            )

    def _folds_keys(self) -> bool:
        """Return whether the key projection is folded into the queries."""
        if not is_plain(self.lin_key):
            return False
        return folds_keys(self.slots, self.heads, self.channels) if self.folded is None else self.folded

    def _folds_values(self, num_nodes: int, num_graphs: int) -> bool:
        """Return whether the value projection is folded into the slots for this batch."""
        if not is_plain(self.lin_value):
            return False
        if self.folded is not None:
            return self.folded
        return folds_values(self.slots, self.heads, self.channels, num_nodes, num_graphs)

    @property
    def address_channels(self) -> int | None:
        """Return the width of the addresses that forward takes; None if it takes none."""
        return None if isinstance(self.addresses, SelfAddresses | None) else self.addresses.address_channels

    def score_parts(
        self, x: Tensor, address: Tensor | Routes | None, slots: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return query ``[(graphs,) slots, heads, a]`` and key ``[nodes, heads or 1, a]`` of the scores."""
        if self.addresses is not None:
            routes = route(self.addresses, x, address)
            return routes.slot, routes.node
        heads, dim = self.heads, self.channels // self.heads
        scale = 1.0 / (self.temperature * math.sqrt(dim))
        query = (self.lin_query(self.slot if slots is None else slots) * scale).unflatten(-1, (heads, dim))
        if self._folds_keys():
            weight = self.lin_key.weight.unflatten(0, (heads, dim))
            return ops.map_heads(query, weight, transposed=True), x.unsqueeze(1)
        return query, self.lin_key(x).unflatten(-1, (heads, dim))

    def routes(
        self, x: Tensor, address: Tensor | None = None, slot: Tensor | None = None, part: Tensor | None = None
    ) -> Routes | None:
        """Return both sides of the scores by address, shared with the read; None if content does the routing.

        Args:
            slot: slot addresses in place of those of the module.
            part: the nodes that write or read; None means all.
        """
        return None if self.addresses is None else route(self.addresses, x, address, slot, part)

    def slot_address(self) -> Float[Tensor, "slots heads dim"] | None:
        """Return the slot addresses, shared with another write; None if content does the routing."""
        if self.addresses is None:
            return None
        return self.addresses.slot.clone() if is_sharded(self) else self.addresses.slot

    def identity(self) -> Float[Tensor, "slots channels"] | None:
        """Return the learned slots, for the residual of the update; None if slots have addresses."""
        if self.addresses is not None:
            return None
        # FSDP frees the gathered parameter on return.
        return self.slot.clone() if is_sharded(self) else self.slot

    def weights(
        self,
        state: SlotState,
        x: Float[Tensor, "nodes channels"],
        plan: Plan,
        *,
        address: Float[Tensor, "nodes address_channels"] | Routes | None = None,
        slots: Float[Tensor, "*graphs slots channels"] | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, "nodes *rows"] | None = None,
        alone: bool = True,
    ) -> Float[Tensor, "nodes slots heads"]:
        """Return the attention of slots to nodes in a state of this write, see :func:`mooring.ops.write_weights`."""
        if sources is not None:
            # Masked before the exponential: the score of a node that does not write may be far above the mass.
            log_weight = torch.zeros_like(x[:, 0]) if log_weight is None else log_weight
            absent = ~sources if log_weight.dim() == 1 else ~sources[:, None, None]
            log_weight = log_weight.masked_fill(absent, float("-inf"))
        query, key = self.score_parts(hide(x, sources), hide_address(address, sources), slots)
        null = self.null_logit
        return ops.write_weights(state, query, key, plan, log_weight=log_weight, null_logit=null, alone=alone)

    def __repr__(self) -> str:
        return shown(self, SlotWrite, self.channels, "heads", competition=self.null_logit is not None)


def folds_keys(slots: int, heads: int, channels: int) -> bool:
    """Return whether folding the projection of the keys into the queries of the slots saves arithmetic.

    Folded, a node costs ``slots * heads * channels``; projected, ``channels * channels`` and then ``slots * channels``.
    """
    return slots * (heads - 1) <= channels


def folds_values(slots: int, heads: int, channels: int, num_nodes: int, num_graphs: int) -> bool:
    """Return whether to fold projections into the content of the slots.

    Folding saves what :func:`folds_keys` counts per node, but adds ``slots * heads`` rows of full width per graph, each
    multiplied by the matrix of a head. Under tracing the number of graphs is symbolic, and only nodes are counted.
    """
    if not folds_keys(slots, heads, channels):
        return False
    saved_per_node, spent_per_graph = channels - slots * (heads - 1), slots * channels
    return torch.compiler.is_compiling() or num_nodes * saved_per_node >= num_graphs * spent_per_graph


def is_plain(linear: nn.Module, *, bias: bool = False) -> bool:
    """Return whether a projection is only a linear map, so that its weight may be used without calling it.

    Adapters, hooks, parametrisations, quantised layers and an overridden ``forward`` act when the module is called.
    (Global hooks see only modules that are called.) A bias cannot be folded; ``bias=True`` accepts a bias that the
    caller adds.
    """
    if type(linear) is not nn.Linear or (linear.bias is not None and not bias) or is_hooked(linear):
        return False
    # Quantisers keep the layer and replace its weight by a tensor with custom arithmetic.
    return type(linear.weight) in (Tensor, nn.Parameter)


def is_hooked(module: nn.Module) -> bool:
    """Return whether a call of the module runs a hook or a ``forward`` of the instance."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return "forward" in module.__dict__ or any(hooks)
