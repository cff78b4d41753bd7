"""A local convolution and a global memory in one layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from mooring.nn.slot_virtual_node import SlotVirtualNode


class SlotConv(nn.Module):
    r"""Graph -> graph: message passing along the edges, then one pass through the slots, then a node MLP.

    .. math::
        h = \operatorname{LN}(x + \operatorname{conv}(x)), \qquad
        h' = \operatorname{memory}(h), \qquad
        x' = \operatorname{LN}(h' + \operatorname{MLP}(h'))

    Called like PyG's ``GPSConv``, with slots in place of its dense attention: cost is linear in the nodes, nothing is
    padded, and LayerNorm in place of BatchNorm keeps a graph's output independent of its batch mates.

    Args:
        channels: width of the node features, in and out.
        conv: local layer from channels to channels, or None for the memory alone.
        slots, heads: as in :class:`~mooring.nn.SlotVirtualNode`.
        dropout: on the local message and inside the MLP.
        act: activation of the MLP, by PyG's name.
        memory: a virtual node of your own instead; then the remaining arguments must be absent.
        kwargs: further arguments of :class:`~mooring.nn.SlotVirtualNode`.

    >>> import torch
    >>> from torch_geometric.nn import GCNConv
    >>> layer = SlotConv(8, GCNConv(8, 8), slots=2)
    >>> layer(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        conv: nn.Module | None,
        slots: int,
        heads: int = 4,
        *,
        dropout: float = 0.0,
        act: str = "relu",
        memory: nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if memory is not None and kwargs:
            raise ValueError(f"SlotConv: got a memory and {sorted(kwargs)} for building one. Pass either.")
        self.channels = channels
        self.conv: Any = conv
        self.memory: Any = memory if memory is not None else SlotVirtualNode(channels, slots, heads, **kwargs)
        self.dropout = nn.Dropout(dropout)
        self.norm_local: Any = nn.LayerNorm(channels) if conv is not None else None
        self.norm_out = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 2 * channels),
            activation_resolver(act),
            nn.Dropout(dropout),
            nn.Linear(2 * channels, channels),
            nn.Dropout(dropout),
        )

    def reset_parameters(self) -> None:
        # PyG's reset walks into containers: a local layer may be an nn.Sequential, which has none of its own.
        for module in (self.conv, self.memory, self.norm_local, self.norm_out, self.mlp):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Any,
        batch: Tensor | None = None,
        *,
        memory_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """``kwargs`` go to the local layer (edge attributes and the like), ``memory_kwargs`` to the memory."""
        h = x
        if self.conv is not None:
            h = self.norm_local(h + self.dropout(self.conv(h, edge_index, **kwargs)))
        h = self.memory(h, batch, **(memory_kwargs or {}))
        return self.norm_out(h + self.mlp(h))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, conv={self.conv}, memory={self.memory})"
