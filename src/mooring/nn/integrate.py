"""How the context enters the node: three interchangeable modules that start at, or near, the identity.

Each has ``context_channels``, the width of context it wants from the read (zero: it reads the memory itself), and
``forward(x, context, memory, batch)``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mooring import ops


class SlotFiLM(nn.Module):
    r"""Node and its own context -> a modulated node.

    .. math::
        [\hat\gamma_j, \hat\beta_j] = \operatorname{MLP}([h_j, O_j]), \qquad
        h_j^+ = (1 + \tfrac12 \tanh \hat\gamma_j) \odot h_j + \tanh \hat\beta_j

    The first layer of the MLP is split, :math:`W [h, O] = W_h h + W_O O`, and its right half is the read's output
    projection: the context arrives already in the hidden width.

    Paper: ``eq:slot-film``; the bounds are those of ``app:protocol``.

    Args:
        channels: width of the node features.
        hidden_channels: hidden width of the MLP; channels if None.
        init_std: of the final map's weights. Zero is the identity, with no gradient to the routing at the first step;
            the paper's 1e-3 keeps the direct path and lets gradients through.
    """

    def __init__(self, channels: int, hidden_channels: int | None = None, *, init_std: float = 1e-3) -> None:
        super().__init__()
        self.context_channels = hidden_channels or channels
        self.init_std = init_std
        self.lin_node = nn.Linear(channels, self.context_channels)
        self.lin_film = nn.Linear(self.context_channels, 2 * channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_node.reset_parameters()
        nn.init.normal_(self.lin_film.weight, std=self.init_std)
        nn.init.zeros_(self.lin_film.bias)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Float[Tensor, "nodes context_channels"],
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        node, film = self.lin_node, self.lin_film
        dtype = node.weight.dtype
        with torch.autocast(x.device.type, enabled=False):
            out = ops.film(x.to(dtype), context.to(dtype), node.weight, node.bias, film.weight, film.bias)
        return out.to(x.dtype)


class ResidualAdd(nn.Module):
    r"""Node plus context, :math:`h_j^+ = h_j + g \odot O_j`, with a learned gain :math:`g` a channel.

    The cheapest integration. Args: ``init_scale`` is the gain at first; zero is the identity.
    """

    def __init__(self, channels: int, *, init_scale: float = 0.1) -> None:
        super().__init__()
        self.context_channels = channels
        self.init_scale = init_scale
        self.gain = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gain, self.init_scale)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Float[Tensor, "nodes channels"],
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        return torch.addcmul(x, context, self.gain.to(x.dtype))


class GlobalFiLM(nn.Module):
    r"""All slots of a graph -> one modulation that every node of it shares.

    .. math::
        [\gamma, \beta] = \Phi(Z_1, \dots, Z_M), \qquad h_j^+ = (1 + \gamma) \odot h_j + \beta

    Nodes select nothing: a target-dependent read has to be synthesised from the product with :math:`h_j`.

    Paper: ``eq:global-slot-film``; bounded as in :class:`SlotFiLM`.
    """

    context_channels = 0

    def __init__(
        self, channels: int, slots: int, hidden_channels: int | None = None, *, init_std: float = 1e-3
    ) -> None:
        super().__init__()
        self.init_std = init_std
        self.lin_slots = nn.Linear(slots * channels, hidden_channels or channels)
        self.lin_film = nn.Linear(hidden_channels or channels, 2 * channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_slots.reset_parameters()
        nn.init.normal_(self.lin_film.weight, std=self.init_std)
        nn.init.zeros_(self.lin_film.bias)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Tensor | None,
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        film = self.lin_film(nn.functional.gelu(self.lin_slots(memory.flatten(1))))
        return modulate(x, film[batch] if batch is not None else film)


def modulate(x: Tensor, film: Tensor) -> Tensor:
    r"""``(1 + tanh(gamma) / 2) * x + tanh(beta)`` for ``film = [gamma, beta]``."""
    gamma, beta = film.tanh().to(x.dtype).chunk(2, dim=-1)
    return torch.addcmul(x, gamma, x, value=0.5) + beta
