"""HydraGNN: slots in the place of its global attention.

HydraGNN's ``Base`` builds its layers from one name. Two lines put slots there, and a configuration with
``"global_attn_engine": "GPS"`` then uses them::

    import sys, hydragnn.models
    sys.modules["hydragnn.models.Base"].HydraGPSConv = SlotGlobalAttention
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn import SlotConv


class SlotGlobalAttention(nn.Module):
    r"""Two streams of node features -> two streams: the local layer, then slots over the invariant stream.

    .. math::
        h = \operatorname{norm}(x + \operatorname{conv}(x, v)), \qquad
        x' = \operatorname{SlotConv}(h)

    Built and called like HydraGNN's ``HydraGPSConv``. The equivariant stream is the local layer's: slots see invariant
    features only, so whatever was equivariant before is so after.

    Args:
        channels, conv, heads, dropout, act, norm: as in ``HydraGPSConv``. The default norm, unlike its batch norm,
            keeps a graph's result independent of its batch mates.
        act_kwargs, norm_kwargs: must be empty.
        attn_type: accepted and without effect: slots take the place of the attention.
        attn_kwargs: further arguments of :class:`~mooring.nn.SlotVirtualNode`, e.g. ``{"slots": 16}``.

    >>> layer = SlotGlobalAttention(8, None, heads=2, attn_kwargs={"slots": 4})
    >>> x, v = layer(torch.randn(5, 8), torch.randn(5, 3), torch.tensor([0, 0, 0, 1, 1]))
    >>> x.shape, v.shape
    (torch.Size([5, 8]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        channels: int,
        conv: nn.Module | None,
        heads: int = 1,
        dropout: float = 0.0,
        act: str = "relu",
        act_kwargs: dict[str, Any] | None = None,
        norm: str | None = "layer_norm",
        norm_kwargs: dict[str, Any] | None = None,
        attn_type: str = "multihead",
        attn_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        for name, options in (("act_kwargs", act_kwargs), ("norm_kwargs", norm_kwargs)):
            if options:
                raise ValueError(f"{type(self).__name__}: {name} is {options} but nothing was expected. Leave it out.")
        self.channels = channels
        self.conv: Any = conv
        self.heads = heads
        self.dropout = dropout
        self.slots = SlotConv(channels, None, heads=heads, dropout=dropout, act=act, norm=norm, **(attn_kwargs or {}))
        # Of the same kind as the norm of the slots, which has been checked.
        self.norm: Any = None if conv is None else copy.deepcopy(self.slots.norm_out)

    def reset_parameters(self) -> None:
        for module in (self.conv, self.norm, self.slots):
            reset(module)

    def forward(
        self, inv_node_feat: Tensor, equiv_node_feat: Tensor, graph_batch: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """
        Args:
            inv_node_feat, equiv_node_feat: the two streams, invariant ``[nodes, channels]``.
            graph_batch: graph id of each node, or None for one graph.
            kwargs: of the local layer, ``edge_index`` among them.
        """
        x = inv_node_feat
        if self.conv is not None:
            message, equiv_node_feat = self.conv(inv_node_feat=x, equiv_node_feat=equiv_node_feat, **kwargs)
            x = x + torch.dropout(message, self.dropout, self.training)
            x = self.norm(x, **({"batch": graph_batch} if self.slots.norms_by_graph else {}))
        return self.slots(x, None, graph_batch), equiv_node_feat

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, conv={self.conv}, memory={self.slots.memory})"
