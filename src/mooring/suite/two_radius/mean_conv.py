"""Mean-aggregation message passing over weighted edges."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .local_graph import LocalGraph


class MeanConv(nn.Module):
    """Residual MPNN layer: a node and the weighted mean of its senders map to the node's next state.

    ``h_v <- h_v + W_2 ReLU(W_1 [h_v, m_v] + b_1) + b_2`` with ``m_v = Σ_u w_uv h_u / Σ_u w_uv``, zero without senders.

    Paper: ``app:protocol``, residual mean-aggregation MPNN layer. With the multiplicity of the sender as the weight of
    an edge, the mean is the plain one over all copies.

    Departs: nowhere in value. ``W_1`` is kept in two halves and its second is applied before the mean, which is
    linear: in Two-Radius few nodes send and many receive.

    Args:
        channels: Width of the states.
        joint: False keeps node and message apart, ``h_v <- h_v + mean_u(W_2 ReLU(W_1 h_u + b_1) + b_2)``. The
            paper does not say which it has; only the first lets a node choose from what it hears.

    Shapes:
        ``x [nodes, channels]`` -> ``[nodes, channels]``, nodes as in the :class:`LocalGraph`.
    """

    def __init__(self, channels: int, *, joint: bool = True) -> None:
        super().__init__()
        self.joint = joint
        if joint:
            self.own = nn.Linear(channels, channels)
        self.received = nn.Linear(channels, channels, bias=not joint)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Float[Tensor, "nodes channels"], graph: LocalGraph) -> Float[Tensor, "nodes channels"]:
        sent = self.received(x.index_select(0, graph.sender))
        if not self.joint:
            sent = self.out(torch.relu(sent))
        message = sent.index_select(0, graph.edge_sender) * graph.share[:, None]
        if not self.joint:
            return x.index_add(0, graph.edge_receiver, message)
        return x + self.out(torch.relu(self.own(x).index_add(0, graph.edge_receiver, message)))
