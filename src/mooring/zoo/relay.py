"""Attention nodes that relay between nodes, with a self-loop in the read."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotRead
from mooring.ops import Plan
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register


class RelayRead(SlotRead):
    r"""A read in which every node also attends to itself, beside the slots, and may keep what it has.

    .. math::
        O_j = \Big(\sum_m \rho_{jm} Z_m U_V + \rho_{jj} h_j U_V\Big) U_O, \qquad
        \rho_j = \operatorname{softmax}([s_{j1}, \dots, s_{jM}, s_{jj}])

    The node's own key is one more slot that all share: an extra coordinate carries :math:`s_{jj}` in the query and one
    in that slot's key, and another brings back its weight :math:`\rho_{jj}`.
    """

    def __init__(self, spec: MemorySpec, addresses: Addresses | None, out_channels: int) -> None:
        super().__init__(
            spec.channels,
            spec.slots,
            spec.heads,
            out_channels=out_channels,
            temperature=spec.temperature,
            addresses=addresses,
        )
        # The self-loop has one logit per head, so heads cannot share a query.
        self.folded = False
        self.lin_self = nn.Linear(spec.channels, spec.heads)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "lin_self"):
            self.lin_self.reset_parameters()

    def score_parts(
        self, x: Tensor, memory: Tensor, address: Tensor | None, *, folded: bool | None = False
    ) -> tuple[Tensor, Tensor]:
        query, key = super().score_parts(x, memory, address, folded=False)
        query = torch.cat([query.expand(-1, self.heads, -1), self.lin_self(x).unsqueeze(-1)], dim=-1)
        return query, with_itself(key if key.dim() == 4 else key.unsqueeze(0))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        batch: Tensor | Plan | None = None,
        *,
        address: Tensor | None = None,
        targets: Tensor | None = None,
        gain: Tensor | None = None,
    ) -> Tensor:
        query, key = self.score_parts(x, memory, address)
        value = with_itself(self.lin_value(memory).unflatten(-1, (self.heads, -1)))
        context = ops.read(query, key, value, batch, where=targets).to(x.dtype)
        own = self.lin_value(x).unflatten(-1, (self.heads, -1))
        out: Tensor = self.lin_out((context[..., :-1] + context[..., -1:] * own).flatten(1))
        return out if gain is None else torch.addcmul(x, out, gain)


def with_itself(slots: Tensor) -> Tensor:
    """``[graphs, slots, heads, dim]`` and one more slot, which is one in one more coordinate and zero elsewhere."""
    itself = torch.zeros_like(slots[:, :1])
    return torch.cat([pad(slots, (0, 1)), pad(itself, (0, 1), value=1.0)], dim=1)


@register("range", title="relay with a self-loop in the broadcast", paper="Caruso et al. 2026")
class RelayVirtualNode(SlotRival):
    """Cross-attention slots whose broadcast lets a node prefer itself.

    Paper: RANGE, Caruso et al. 2026 (arXiv 2502.13797).
    Departs: the self-loop's logit is a linear map of the node and not a key's product; no positional encodings of
    distances and no regulariser of the number of relays, which belong to molecules; Slot-FiLM at the end as for all
    slots here. ``read_weights`` of the memory have one more column, the self-loop.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        if self.read is None:
            raise ValueError(
                f"{type(self).__name__}: with integrate={spec.integrate!r} nodes read nothing, so there is no read for "
                "the self-loop. Use 'film' or 'residual'."
            )
        self.read = RelayRead(spec, self.write.addresses, self.integrate.context_channels)
