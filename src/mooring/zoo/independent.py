"""Many virtual nodes, each with its own weights, and no way to choose between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.nn import MemorySpec
from mooring.zoo.base import GlobalModule, JointBroadcast, Rows
from mooring.zoo.registry import register


class IndependentVirtualNodes(GlobalModule):
    r"""As many mean-pool virtual nodes as slots, initialised and updated independently; nodes get their average.

    .. math::
        z_m = s_m + \operatorname{MLP}_m(s_m + \tfrac1n \textstyle\sum_i h_i), \qquad
        h_j^+ = h_j + \epsilon \operatorname{MLP}([h_j, \tfrac1M \sum_m z_m])

    Their states differ, unlike those of clones, but nothing selects among them: neither write nor read has an address.

    Paper: the control beside "symmetric VN clones remain one channel" (``app:capacity``).
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        channels, hidden = spec.channels, spec.hidden
        self.state = nn.Parameter(torch.randn(spec.slots, channels))
        self.updates = nn.ModuleList(
            nn.Sequential(
                nn.Linear(channels, hidden),
                nn.GELU(),
                nn.Linear(hidden, hidden),
                nn.GELU(),
                nn.Linear(hidden, channels),
            )
            for _ in range(spec.slots)
        )
        self.decoder = JointBroadcast(channels, channels, channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.state)

    def gather(self, writers: Rows) -> Tensor:
        mean = writers.mean().content.flatten(1).to(self.state.dtype)
        seen = self.state + mean.unsqueeze(1)
        return self.state + torch.stack([update(seen[:, m]) for m, update in enumerate(self.updates)], dim=1)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.mean(dim=1))
        return out


@register("vn-independent", title="as many independent virtual nodes as slots", paper="Marcoccia 2026, control")
def independent(spec: MemorySpec) -> nn.Module:
    return IndependentVirtualNodes(spec)
