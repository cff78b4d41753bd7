"""The graph the local layers run on: a batch's own, with nodes that must stay equal stored once."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LocalGraph(NamedTuple):
    """Edges and shares of a weighted mean over senders, between nodes of which equal ones were merged.

    Attributes:
        node: One node of the batch for each node here.
        position: The node here that holds the state of each node of the batch.
        sender: The nodes here that send anything.
        edge_sender: Sender of each edge, as a place in ``sender``.
        edge_receiver: Receiver of each edge.
        share: Weight of each edge in the mean at its receiver; the shares of a receiver sum to one.
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
    """Merge nodes of the same kind that receive nothing: message passing on the result gives the same states.

    A node without incoming edges has a state that depends on its features alone, whichever graph of the batch it is in.
    The paper's minibatch has 12 * 12 kinds of sources, so at most 144 states stand for its 1,152 (collapsed) or some
    5,700 (full) sources in every layer.

    Args:
        kind: Equal for nodes with equal features.
        edge_index: Sender and receiver of each edge.
        edge_weight: Positive weight of each edge.
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
    """Where each distinct value occurs first, and for every item which distinct value it has.

    >>> [part.tolist() for part in first_of_each(torch.tensor([7, 3, 7, 5]))]
    [[1, 3, 0], [2, 0, 2, 1]]
    """
    distinct, of_item = code.unique(return_inverse=True)
    first = torch.full_like(distinct, len(code)).scatter_reduce_(0, of_item, torch.arange(len(code)), "amin")
    return first, of_item
