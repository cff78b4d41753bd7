"""The network of the counted and the permutation task: one backbone, any global memory."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mooring.suite.two_radius.data import ROLES, TwoRadiusBatch

from .local_graph import first_of_each, local_graph
from .mean_conv import MeanConv


@dataclass(frozen=True)
class Answer:
    """What the targets say, in their order among the nodes, and the memory they read (None without one)."""

    label: Float[Tensor, "targets labels"]
    count: Float[Tensor, "targets counts"] | None
    memory: Any


class TwoRadiusNet(nn.Module):
    """Maps a Two-Radius batch to label and count logits of its targets.

    Embeddings of identifier, label and role -> two-layer MLP -> LayerNorm -> residual mean MPNN layers -> global
    memory, written by sources, read by targets and addressed by the identifier embedding -> a two-layer MLP per answer.

    Paper: ``app:protocol``, "Model variants".

    Departs: the paper leaves open how the embeddings meet (here: side by side), where the memory stands (once, after
    the local layers), the activation (ReLU) and the message (the sender's state itself). Nodes that must have equal
    states, because they have equal features and receive nothing, are computed once.

    Args:
        num_identifiers: Identifiers including those of the centres.
        num_labels: Labels, without the null label.
        num_counts: Count classes, class ``c - 1`` for count ``c``; None for a network that names labels only.
        memory: Global module with the forward of ``SlotVirtualNode``, or None.
        channels: Width of the states.
        embedding_channels: Width of the embeddings, hence of the address.
        layers: Local layers.
        joint: as in :class:`MeanConv`.
        side_by_side: False adds the three embeddings up instead.
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
        joint: bool = True,
        side_by_side: bool = True,
    ) -> None:
        super().__init__()
        self.num_labels = num_labels
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
        """Answer for every target; ``return_state`` also hands out the memory that was read."""
        x, memory = self.local(batch), None
        if self.memory is not None:
            x = self.memory(
                x,
                batch.batch,
                address=self.identifier(batch.identifier),
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
        """States after the local layers, which see the graph's own edges only."""
        features = torch.stack([batch.identifier, batch.label, batch.role])
        kind = (features[0] * (self.num_labels + 1) + features[1]) * len(ROLES) + features[2]
        # Index lists instead of advanced indexing: on a CPU index_select is several times faster, backward too.
        graph = local_graph(kind, batch.edge_index, batch.edge_weight.to(self.role.weight.dtype))
        first, of_kind = first_of_each(kind[graph.node])
        x = self.encoder(self.embed(features[:, graph.node[first]])).index_select(0, of_kind)
        for conv in self.convs:
            x = conv(x, graph)
        return x.index_select(0, graph.position)

    def embed(self, features: Int[Tensor, "3 kinds"]) -> Float[Tensor, "kinds embeddings"]:
        """Embeddings of identifier, label and role side by side, or their sum."""
        parts = [self.identifier(features[0]), self.label(features[1]), self.role(features[2])]
        return torch.cat(parts, dim=1) if self.side_by_side else torch.stack(parts).sum(dim=0)


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """A two-layer MLP."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
