"""Virtual node as in OGB's models: one state per graph, passed from layer to layer."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mooring.models.layers import Norm, norm_of
from mooring.nn import SlotMemory
from mooring.nn.checks import check_choice, check_input, check_return_state, check_share
from mooring.nn.masks import readers, sound_nodes, writers
from mooring.nn.memory import carried_slots
from mooring.nn.virtual_node import pooled_mean
from mooring.ops import Plan
from mooring.ops.checks import check_count

OGBPool = Literal["sum", "mean"]
TOO_FEW = (
    "norm='batch' cannot train on a batch of one graph, whose state would always be zero. Pass norm='layer', or more "
    "graphs per batch."
)


class OGBVirtualNode(nn.Module):
    r"""Node features and the previous layer's state -> node features with the new state added, and that state.

    .. math::
        z_g' = \operatorname{dropout}(\operatorname{MLP}_2(z_g + \operatorname{pool}_{i \in g} h_i)), \qquad
        h_i' = h_i + z_{g(i)}'

    Paper: Gilmer et al. 2017; MLP, norms and carried state as in OGB's baselines (Hu et al. 2020, arXiv 2005.00687).
    Departs: the state pools the output of the preceding layer, while OGB's pools its input. There is no state before
    the first layer (OGB's is trained, from zeros). The new state replaces the old one, while OGB adds it if layers are
    residual.

    Args:
        channels: width of the node features, in and out.
        pool: ``"sum"`` (as in OGB), or ``"mean"``.
        norm: norm of the MLP. ``"batch"`` (as in OGB) needs at least two graphs in training and makes them depend on
            each other; ``"layer"``; None.
        dropout: dropout on the state.
        hidden_channels: hidden width of the MLP; twice channels if None, as in OGB.

    Shapes: x ``[nodes, channels]`` -> ``[nodes, channels]``.

    An empty graph pools to zero. Masked nodes have no influence, as in :class:`~mooring.nn.SlotVirtualNode`.

    >>> OGBVirtualNode(8)(torch.randn(5, 8), torch.tensor([0, 0, 1, 1, 1])).shape
    torch.Size([5, 8])
    """

    #: By default a model passes the state of the previous layer.
    carries = True

    def __init__(
        self,
        channels: int,
        pool: OGBPool = "sum",
        *,
        norm: Norm | None = "batch",
        dropout: float = 0.0,
        hidden_channels: int | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_count(who, "channels", channels)
        check_choice(who, "pool", pool, get_args(OGBPool))
        check_share(who, "dropout", dropout)
        hidden = 2 * channels if hidden_channels is None else check_count(who, "hidden_channels", hidden_channels)
        self.channels = channels
        self.pool = pool
        self.norm = norm
        self.dropout = dropout
        widths = ((channels, hidden), (hidden, channels))
        self.lins = nn.ModuleList(nn.Linear(*pair) for pair in widths)
        self.norms = nn.ModuleList(norm_of(who, norm, width) for _, width in widths)

    def reset_parameters(self) -> None:
        for module in (*self.lins, *self.norms):
            if not isinstance(module, nn.Identity):
                module.reset_parameters()

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Tensor | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, " nodes"] | None = None,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        memory: SlotMemory | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> Float[Tensor, "nodes channels"] | tuple[Tensor, SlotMemory]:
        """Run as :class:`~mooring.nn.SlotVirtualNode`; ``address`` is ignored, because there is one state."""
        return_state = check_return_state(type(self).__name__, return_state)
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        plan = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **masks)
        if self.norm == "batch":
            self._check_graphs(plan.num_graphs)
        reads = readers(sound_nodes(x, None, writers(sources, log_weight)), targets)
        mean = pooled_mean(x, plan, sources=sources, log_weight=log_weight)
        pooled = (mean.total if self.pool == "sum" else mean.content).view(plan.num_graphs, self.channels)
        state = pooled.to(x.dtype)
        carried = carried_slots(type(self).__name__, memory, (plan.num_graphs, 1, self.channels), x)
        state = state if carried is None else state + carried.squeeze(1)
        for lin, norm in zip(self.lins, self.norms, strict=True):
            state = torch.relu(norm(lin(state)))
        state = nn.functional.dropout(state, self.dropout, self.training)
        out = x + (state if plan.batch is None else state.index_select(0, plan.batch))
        out = out if reads is None else torch.where(reads.unsqueeze(-1), out, x)
        return (out, SlotMemory(mean, state.unsqueeze(1))) if return_state else out

    def _check_graphs(self, num_graphs: int) -> None:
        """Raise if batch norm trains on one graph. Under tracing the number may be symbolic, so assert a minimum."""
        if torch.compiler.is_compiling():
            torch._check(num_graphs > (1 if self.training else 0), lambda: TOO_FEW)
        elif self.training and num_graphs == 1:
            raise ValueError(f"{type(self).__name__}: {TOO_FEW}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, pool={self.pool!r}, norm={self.norm!r})"
