"""Network of the counted and the permutation task: one backbone, any global memory."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mooring.suite.two_radius.data import ROLES, TwoRadiusBatch


class LocalGraph(NamedTuple):
    """Edges and shares of a weighted mean over senders, between nodes after merging equal nodes.

    Attributes:
        node: one batch node per merged node.
        position: merged node of each batch node.
        sender: merged nodes that send messages.
        edge_sender: sender of each edge, as an index into ``sender``.
        edge_receiver: receiver of each edge.
        share: weight of each edge in the mean at its receiver; the shares of a receiver sum to one.
    """

    node: Int[Tensor, " merged"]
    position: Int[Tensor, " nodes"]
    sender: Int[Tensor, " senders"]
    edge_sender: Int[Tensor, " edges"]
    edge_receiver: Int[Tensor, " edges"]
    share: Float[Tensor, " edges"]


def local_graph(
    kind: Int[Tensor, " nodes"], edge_index: Int[Tensor, "2 edges"], edge_weight: Float[Tensor, " edges"]
) -> LocalGraph:
    """Merge nodes of the same kind without incoming edges; message passing gives the same states.

    A node without incoming edges has a state that depends on its features alone, not on its graph. The paper's
    minibatch has 12 * 12 kinds of sources, so at most 144 states represent its 1,152 (collapsed) or some 5,700 (full)
    sources in every layer.

    Args:
        kind: equal for nodes with equal features.
        edge_index, edge_weight: edges and their positive weights.
    """
    receives = torch.zeros_like(kind, dtype=torch.bool)
    receives[edge_index[1]] = True
    alone = kind.max() + 1 + torch.arange(len(kind))
    node, position = first_of_each(torch.where(receives, alone, kind))
    receiver = position[edge_index[1]]
    sender, edge_sender = position[edge_index[0]].unique(return_inverse=True)
    total = edge_weight.new_zeros(len(node)).index_add(0, receiver, edge_weight)
    return LocalGraph(node, position, sender, edge_sender, receiver, edge_weight / total[receiver])


def first_of_each(code: Int[Tensor, " items"]) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " items"]]:
    """Return the first position of each distinct value, and the number of every item's value.

    >>> [part.tolist() for part in first_of_each(torch.tensor([7, 3, 7, 5]))]
    [[1, 3, 0], [2, 0, 2, 1]]
    """
    distinct, of_item = code.unique(return_inverse=True)
    first = torch.full_like(distinct, len(code)).scatter_reduce_(0, of_item, torch.arange(len(code)), "amin")
    return first, of_item


class MeanConv(nn.Module):
    """Residual MPNN layer: a node and the weighted mean of its senders map to the node's next state.

    ``h_v <- h_v + W_2 ReLU(W_1 [h_v, m_v] + b_1) + b_2`` with ``m_v = Σ_u w_uv h_u / Σ_u w_uv``, zero without senders.

    Paper: ``app:protocol``, residual mean-aggregation MPNN layer. With the multiplicity of the sender as the weight of
    an edge, the mean is the plain mean over all copies.

    Numerically identical to the paper. ``W_1`` is stored in two halves, and the second is applied before the mean,
    which is linear: in Two-Radius few nodes send and many receive.

    Args:
        channels: width of the states.
        joint: if False, node and message are separate, ``h_v <- h_v + mean_u(W_2 ReLU(W_1 h_u + b_1) + b_2)``. The
            paper leaves this open; only the joint form lets a node select from its messages.

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


@dataclass(frozen=True)
class Answer:
    """Answers of the targets, in their order among the nodes, and the memory they read (None without one)."""

    label: Float[Tensor, "targets labels"]
    count: Float[Tensor, "targets counts"] | None
    memory: Any


class TwoRadiusNet(nn.Module):
    """Two-Radius batch -> label and count logits of its targets.

    Embeddings of identifier, label and role -> two-layer MLP -> LayerNorm -> residual mean MPNN layers -> global
    memory, written by sources and read by targets -> a two-layer MLP per answer. Nodes write and read at the embedding
    of their identifier, or, if not addressed, by content.

    Paper: ``app:protocol``, "Model variants".

    Departs: the paper leaves open how the embeddings are combined (here: concatenated), the position of the memory
    (once, after the local layers), the activation (ReLU) and the message (the sender's state). Nodes with equal
    features and no incoming edges have equal states, which are computed once.

    Args:
        num_identifiers: identifiers including those of the centres.
        num_labels: labels, without the null label.
        num_counts: count classes, class ``c - 1`` for count ``c``; None for a network that predicts labels only.
        memory: global module with the forward of ``SlotVirtualNode``, or None.
        channels: width of the states.
        embedding_channels: width of the embeddings, hence of the address.
        layers: local layers.
        addressed: whether the memory receives addresses.
        joint: as in :class:`MeanConv`.
        side_by_side: concatenate the three embeddings; if False, add them.
    """

    def __init__(
        self,
        num_identifiers: int,
        num_labels: int,
        num_counts: int | None,
        memory: nn.Module | None,
        *,
        channels: int = 128,
        embedding_channels: int = 128,
        layers: int = 3,
        addressed: bool = True,
        joint: bool = True,
        side_by_side: bool = True,
    ) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.addressed = addressed
        self.side_by_side = side_by_side
        self.identifier = nn.Embedding(num_identifiers, embedding_channels)
        self.label = nn.Embedding(num_labels + 1, embedding_channels)
        self.role = nn.Embedding(len(ROLES), embedding_channels)
        inputs = 3 * embedding_channels if side_by_side else embedding_channels
        self.encoder = nn.Sequential(two_layers(inputs, channels, channels), nn.LayerNorm(channels))
        self.convs = nn.ModuleList(MeanConv(channels, joint=joint) for _ in range(layers))
        self.memory = memory
        self.label_head = two_layers(channels, channels, num_labels)
        self.count_head = None if num_counts is None else two_layers(channels, channels, num_counts)

    def forward(self, batch: TwoRadiusBatch, return_state: bool = False) -> Answer:
        """Answer for every target; with ``return_state``, also return the memory."""
        x, memory = self.local(batch), None
        if self.memory is not None:
            x = self.memory(
                x,
                batch.batch,
                address=self.identifier(batch.identifier) if self.addressed else None,
                sources=batch.sources,
                targets=batch.targets,
                log_weight=batch.log_weight.to(x.dtype),
                num_graphs=batch.num_graphs,
                return_state=return_state,
            )
            x, memory = x if return_state else (x, None)
        x = x.index_select(0, batch.targets.nonzero().squeeze(1))
        return Answer(self.label_head(x), None if self.count_head is None else self.count_head(x), memory)

    def local(self, batch: TwoRadiusBatch) -> Float[Tensor, "nodes channels"]:
        """Return the states after the local layers, which use the edges of the graph only."""
        features = torch.stack([batch.identifier, batch.label, batch.role])
        kind = (features[0] * (self.num_labels + 1) + features[1]) * len(ROLES) + features[2]
        # Index lists instead of advanced indexing: on a CPU index_select is several times faster, also in the backward
        # pass.
        graph = local_graph(kind, batch.edge_index, batch.edge_weight.to(self.role.weight.dtype))
        first, of_kind = first_of_each(kind[graph.node])
        x = self.encoder(self.embed(features[:, graph.node[first]])).index_select(0, of_kind)
        for conv in self.convs:
            x = conv(x, graph)
        return x.index_select(0, graph.position)

    def embed(self, features: Int[Tensor, "3 kinds"]) -> Float[Tensor, "kinds embeddings"]:
        """Embed identifier, label and role; concatenate or add the embeddings."""
        parts = [self.identifier(features[0]), self.label(features[1]), self.role(features[2])]
        return torch.cat(parts, dim=1) if self.side_by_side else torch.stack(parts).sum(dim=0)


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Build a two-layer MLP."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
