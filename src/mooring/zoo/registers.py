"""Extra tokens in the write's softmax: registers, and an attention sink."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotWrite
from mooring.ops import Plan, SlotState
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register

REGISTERS = 4


class TokenWrite(SlotWrite):
    r"""A write in which every graph has a few learned tokens besides its nodes.

    .. math::
        \mu = \frac{\sum_i e^{s_i} v_i + \sum_r e^{s_r} v_r}{\sum_i e^{s_i} + \sum_r e^{s_r}}

    All slots and heads attend to the same tokens. The mass they absorb is not passed on: it shows only in how far the
    content moves towards the tokens' values.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        addresses: as in :class:`~mooring.nn.SlotWrite`; then the tokens have addresses too.
        tokens: number of tokens.
        silent: whether their values are zero.
    """

    def __init__(self, spec: MemorySpec, addresses: Addresses | None, *, tokens: int, silent: bool) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, temperature=spec.temperature, addresses=addresses)
        self.silent = silent
        self.token = nn.Parameter(torch.randn(tokens, spec.channels))
        self.token_address: nn.Parameter | None = None
        if addresses is not None:
            self.token_address = nn.Parameter(torch.randn(tokens, addresses.address_channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("token"):
                nn.init.normal_(parameter)

    def forward(self, x: Tensor, batch: Tensor | Plan | None = None, **options: Any) -> SlotState:
        nodes = super().forward(x, batch, **options)
        tokens = super().forward(self.token, address=self.token_address)
        value = torch.zeros_like(tokens.content) if self.silent else tokens.content
        return ops.merge(nodes, SlotState(value.expand_as(nodes.content), tokens.log_mass.expand_as(nodes.log_mass)))


class RegisterVirtualNode(SlotRival):
    """Cross-attention slots whose softmax has registers (or, if silent, a sink) that absorb attention.

    Paper: Darcet et al. 2024 (arXiv 2309.16588); Xiao et al. 2024 (arXiv 2309.17453).

    Departs: both belong to self-attention over a sequence. Here the tokens are in the set that the slots attend to,
    the one place where they could act as anchors. The sink's value is zero, because sinks were found to carry almost
    none; the sink of a trained language model is its first token.
    """

    def __init__(self, spec: MemorySpec, *, tokens: int, silent: bool = False) -> None:
        super().__init__(spec)
        self.write = TokenWrite(spec, self.write.addresses, tokens=tokens, silent=silent)


@register("registers", title=f"Cross-Attn VN with {REGISTERS} register tokens", paper="Darcet et al. 2024")
def registers(spec: MemorySpec) -> nn.Module:
    return RegisterVirtualNode(spec, tokens=REGISTERS)


@register("sink", title="Cross-Attn VN with an attention sink", paper="Xiao et al. 2024")
def sink(spec: MemorySpec) -> nn.Module:
    return RegisterVirtualNode(spec, tokens=1, silent=True)
