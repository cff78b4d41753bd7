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

    Shapes:
        ``x [nodes, channels]`` -> ``[nodes, channels]``, nodes as in the :class:`LocalGraph`.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(channels, channels)
        self.received = nn.Linear(channels, channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Float[Tensor, "nodes channels"], graph: LocalGraph) -> Float[Tensor, "nodes channels"]:
        sent = self.received(x.index_select(0, graph.sender))
        message = sent.index_select(0, graph.edge_sender) * graph.share[:, None]
        return x + self.out(torch.relu(self.own(x).index_add(0, graph.edge_receiver, message)))
