"""The read: slots -> nodes, with learned projections."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mooring import ops
from mooring.nn.addresses import Routes
from mooring.nn.checks import (
    check_build,
    check_features,
    check_like_nodes,
    check_nodes,
    check_plan,
    check_positive,
    check_width,
    check_width_or_none,
    shown,
)
from mooring.nn.integrate import SlotFiLM
from mooring.nn.masks import hide
from mooring.nn.slot_write import folds_values, is_hooked, is_plain
from mooring.ops import Plan, checks
from mooring.ops.checks import check_flag
from mooring.ops.plan import make_plan
from mooring.ops.read import read_planned, read_scored


class SlotRead(nn.Module):
    r"""Node features and slots -> a context for every node, by cross-attention to the slots of its graph.

    .. math::
        \rho_{jm} = \operatorname{softmax}_m \frac{(h_j U_Q)^\top (Z_m U_K)}{\tau \sqrt d}, \qquad
        O_j = \Big(\sum_m \rho_{jm} Z_m U_V\Big) U_O

    Paper: ``eq:slotreadout``, ``eq:target-slot-read``; by address, the keys are the static slot addresses.

    If it is cheaper, :math:`U_Q` and :math:`U_O` are folded into the keys and values of the slots, and a node costs two
    skinny matrix products instead of a ``channels x channels`` one.

    Args:
        channels, slots, heads, temperature: as in :class:`SlotWrite`.
        by_address: score by the routes of the write (:meth:`SlotWrite.routes`) instead of by keys of the content.
        out_channels: width of the context; channels if None.

    Shapes: x ``[nodes, channels]``, memory ``[graphs, slots, channels]`` -> ``[nodes, out_channels]``.

    >>> SlotRead(8, slots=3, heads=2)(torch.randn(5, 8), torch.randn(1, 3, 8)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int = 4,
        *,
        out_channels: int | None = None,
        temperature: float = 1.0,
        by_address: bool = False,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_build(who, channels, slots, heads)
        check_positive(who, "temperature", temperature)
        by_address = check_flag(who, "by_address", by_address)
        if by_address and temperature != 1.0:
            raise ValueError(
                f"{who}: temperature={temperature} has no effect, since scores by address have that of the write's "
                "addresses. Leave it out."
            )
        self.out_channels = out_channels
        out_channels = check_width_or_none(who, "out_channels", out_channels, channels)
        self.channels = channels
        self.heads = heads
        self.temperature = temperature
        self.slots = slots
        self.folded: bool | None = None  # None decides by cost
        self.by_address = by_address
        if not by_address:
            self.lin_query = nn.Linear(channels, channels, bias=False)
            self.lin_key = nn.Linear(channels, channels, bias=False)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.lin_out = nn.Linear(channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in self.children():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Routes | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        gain: Float[Tensor, " channels"] | None = None,
    ) -> Float[Tensor, "nodes out_channels"]:
        r"""Return the context of each node.

        Args:
            batch: graph id of each node; pass a :class:`~mooring.ops.Plan` only after checking all arguments.
            targets: mask of the nodes that read. The context of the others is zero, and they influence no gradient.
            address: routes of the write, if ``by_address``.
            gain: return :math:`h_j + g \odot O_j` instead; scale and sum cost no pass over the nodes.
        """
        if not isinstance(batch, Plan):
            batch = self._check(x, memory, batch, address, targets, ptr, plan)
        batch = self._with_graphs_of(memory, batch)
        folded = self.folds(x.size(0), memory.size(0))
        if folded and targets is None and address is not None and address.backend is not None:
            scores, value = cast(Tensor, address.scores), self.values(memory, gain)
            context = read_scored(address.backend, scores, value, batch).to(x.dtype)
            return context if gain is None else x + context
        # If folded, the nodes themselves are queries, and the op skips those that do not read.
        query, key = self.score_parts(x if folded else hide(x, targets), memory, address, folded=folded)
        if not folded:
            value = self.lin_value(memory.flatten(0, 1)).view(
                *memory.shape[:2], self.heads, self.channels // self.heads
            )
            context = read_planned(query, key, value, batch, where=targets).flatten(1).to(x.dtype)
            product = hide(self.lin_out(context), targets)
            return product if gain is None else torch.addcmul(x, product, gain.to(x.dtype))
        value = self.values(memory, gain)
        # Queries by address are not the nodes themselves.
        residual = gain is not None and not self.by_address
        context = read_planned(query, key, value, batch, where=targets, sum_heads=True, residual=residual)
        context = context.squeeze(1).to(x.dtype)
        return context if residual or gain is None else x + context

    def values(self, memory: Tensor, gain: Tensor | None = None) -> Float[Tensor, "graphs slots heads out_channels"]:
        """Return the values of the slots with output projection and ``gain`` folded in."""
        weight = self.lin_out.weight if gain is None else self.lin_out.weight * gain.unsqueeze(1)
        weight, heads = weight.unflatten(-1, (self.heads, -1)).transpose(0, 1), self.heads
        rows, width = memory.flatten(0, 1), weight.size(1)
        # Multiply both projections first if that is less arithmetic, as for a narrow context.
        if (
            is_plain(self.lin_value)
            and width * (heads - 1) <= self.channels
            and (torch.compiler.is_compiling() or rows.size(0) > self.channels)
        ):
            both = torch.bmm(weight.to(rows.dtype), self.lin_value.weight.unflatten(0, (heads, -1)).to(rows.dtype))
            value = rows @ both.flatten(0, 1).t()
        else:
            value = ops.map_heads(self.lin_value(rows).unflatten(-1, (heads, -1)), weight)
        return value.view(*memory.shape[:2], heads, width)

    def _check(
        self,
        x: Tensor,
        memory: Tensor,
        batch: Tensor | None,
        address: Routes | None,
        targets: Tensor | None,
        ptr: Tensor | None,
        plan: Plan | None,
    ) -> Plan:
        """Check all arguments and return the plan of the nodes."""
        who = type(self).__name__
        check_features(self, self.channels, x)
        check_nodes(who, x, batch=batch, targets=targets)
        if isinstance(address, Routes) is not self.by_address:
            raise ValueError(
                f"{who}: address is {checks.described(address)} but "
                + (
                    "the routes of the write were expected. Pass address=write.routes(x, address)."
                    if self.by_address
                    else "content does the routing here. Leave it out, or build it with by_address=True."
                )
            )
        checks.check_rank(who, "memory", memory, "graphs slots channels")
        check_like_nodes(who, "memory", memory, x)
        check_width(who, "memory", memory, "channels", self.channels)
        if memory.size(1) != self.slots:
            raise ValueError(
                f"{who}: memory has {memory.size(1)} slots but slots={self.slots}. Build it with "
                f"slots={memory.size(1)}, or pass the memory of a write and an update with as many."
            )
        if batch is None or ptr is not None or plan is not None:
            return check_plan(who, x, batch, ptr, plan, None)
        return make_plan(who, batch, None, x.size(0), memory.size(0), count_name="memory.size(0)", device=x.device)

    def _with_graphs_of(self, memory: Tensor, plan: Plan) -> Plan:
        """Return the plan with the number of graphs of the memory, as the last graphs may be empty."""
        graphs = memory.size(0)
        if torch.compiler.is_compiling() or plan.num_graphs == graphs:
            return plan
        if plan.num_graphs > graphs or plan.batch is None:
            raise ValueError(
                f"{type(self).__name__}: memory has {graphs} graphs but the nodes are those of {plan.num_graphs}. Pass "
                "the batch that the memory was written from."
            )
        return plan.with_graphs(graphs)

    def folds(self, num_nodes: int, num_graphs: int) -> bool:
        """Return whether this batch is read with the projections folded into the slots."""
        if not is_plain(self.lin_out) or (not self.by_address and not is_plain(self.lin_query)):
            return False
        if self.folded is not None:
            return self.folded
        return folds_values(self.slots, self.heads, self.channels, num_nodes, num_graphs)

    def score_parts(
        self, x: Tensor, memory: Tensor, address: Routes | None, *, folded: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return query ``[nodes, heads or 1, a]`` and key ``[(graphs,) slots, heads, a]`` of the scores."""
        if address is not None:
            return address.node, address.slot
        heads, dim = self.heads, self.channels // self.heads
        scale = 1.0 / (self.temperature * math.sqrt(dim))
        key = (self.lin_key(memory.flatten(0, 1)) * scale).unflatten(-1, (heads, dim))
        if self.folds(x.size(0), memory.size(0)) if folded is None else folded:
            weight = self.lin_query.weight.unflatten(0, (heads, dim))
            key = ops.map_heads(key, weight, transposed=True)
            return x.unsqueeze(1), key.unflatten(0, memory.shape[:2])
        return self.lin_query(x).unflatten(-1, (heads, dim)), key.unflatten(0, memory.shape[:2])

    def weights(
        self,
        x: Float[Tensor, "nodes channels"],
        memory: Float[Tensor, "graphs slots channels"],
        plan: Plan,
        address: Routes | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
    ) -> Float[Tensor, "nodes _ heads"]:
        """Return the attention of nodes to the slots of their graph, see :func:`mooring.ops.read_weights`."""
        address = None if address is None else address.hidden(targets)
        weights = ops.read_weights(*self.score_parts(hide(x, targets), memory, address), plan)
        return weights if targets is None else weights.masked_fill(~targets[:, None, None], 0.0)

    def __repr__(self) -> str:
        return shown(self, SlotRead, self.channels, "heads")


def read_film(
    read: nn.Module, film: nn.Module, x: Tensor, memory: Tensor, plan: Plan, routes: Routes | None
) -> Tensor | None:
    """Read and apply Slot-FiLM in one op of the back end; None if modules, dtypes or back end do not allow it."""
    backend: Any = None if routes is None else routes.backend
    if not hasattr(backend, "read_film") or type(read) is not SlotRead or type(film) is not SlotFiLM:
        return None
    weights = film.plain_weights()
    if weights is None or film.lin_linear is not None or is_hooked(read) or is_hooked(film):
        return None
    if not read.folds(x.size(0), memory.size(0)) or any(tensor.dtype != torch.float32 for tensor in (x, *weights)):
        return None
    out: Tensor = backend.read_film(cast(Routes, routes).scores, read.values(memory), plan, x, *weights)
    return out
