"""Batches of the Two-Radius tasks: fields, layout of the nodes, and random streams."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch_geometric.data import Data

Split = Literal["train", "validation", "test", "diagnostic"]
SPLITS: tuple[Split, ...] = get_args(Split)


def stream(seed: int, split: Split, epoch: int = 0, step: int = 0) -> np.random.Generator:
    """Return the generator of one minibatch, a pure function of ``(seed, split, epoch, step)``.

    So a run that is killed and resumed at any step sees the same data as an uninterrupted run. Splits never share a
    stream, and validation data are fresh in every epoch. A seed is a non-negative integer of any size.

    Example:
        >>> int(stream(0, "train", epoch=3, step=7).integers(1000)) == int(stream(0, "train", 3, 7).integers(1000))
        True
    """
    if split not in SPLITS:
        raise ValueError(f"two-radius: unknown split {split!r}. Choose one of {', '.join(SPLITS)}.")
    # A spawn key, unlike a list of entropy words, cannot collide with a seed wider than 32 bits.
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(SPLITS.index(split), epoch, step)))
    )


ROLES = SOURCE, CENTRE, TARGET = 0, 1, 2

Ints = Int[np.ndarray, "..."]


@dataclass(frozen=True)
class TwoRadiusBatch:
    """Graphs of one minibatch as one flat ragged graph in PyG's layout, without padding.

    The nodes of a graph are its sources, then its centres, then its targets; sources and targets are in random order.

    Attributes:
        identifier: identifier of each node; centre ``k`` has ``num_identifiers + k``.
        label: label of each source; the task chooses the entry of other nodes (a null label, one past the last).
        role: ``SOURCE``, ``CENTRE`` or ``TARGET``.
        multiplicity: number of identical nodes that a node represents; 1 in a full rendering.
        edge_index: sender and receiver of each edge.
        batch: graph of each node, ascending.
        y_label: answer of each target, in the order of the targets among the nodes.
        y_count: number of sources that share the target's identifier, in the same order.
        scale: replication scale of each graph.
        num_graphs: number of graphs.
    """

    identifier: Int[Tensor, " nodes"]
    label: Int[Tensor, " nodes"]
    role: Int[Tensor, " nodes"]
    multiplicity: Int[Tensor, " nodes"]
    edge_index: Int[Tensor, "2 edges"]
    batch: Int[Tensor, " nodes"]
    y_label: Int[Tensor, " targets"]
    y_count: Int[Tensor, " targets"]
    scale: Int[Tensor, " graphs"]
    num_graphs: int

    @property
    def num_nodes(self) -> int:
        """Number of stored nodes; merged copies count once."""
        return self.identifier.size(0)

    @property
    def sources(self) -> Bool[Tensor, " nodes"]:
        """Mask of the nodes that may write to a global memory."""
        return self.role == SOURCE

    @property
    def targets(self) -> Bool[Tensor, " nodes"]:
        """Mask of the nodes that must answer."""
        return self.role == TARGET

    @property
    def log_weight(self) -> Float[Tensor, " nodes"]:
        """Logarithm of the multiplicity, which a softmax over nodes adds to the score of a merged node."""
        return self.multiplicity.double().log()

    @property
    def edge_weight(self) -> Float[Tensor, " edges"]:
        """Weight of each edge in a mean over senders: the multiplicity of its sender."""
        return self.multiplicity[self.edge_index[0]].double()

    def to_data(self) -> Data:
        """Return the same graphs as a PyG ``Data``, with masks and weights."""
        fields = {name: value for name, value in vars(self).items() if name != "num_graphs"}
        derived = {name: getattr(self, name) for name in ("sources", "targets", "log_weight", "edge_weight")}
        return Data(num_nodes=self.num_nodes, **fields, **derived)


@dataclass(frozen=True)
class Sources:
    """Source nodes of a batch, graph by graph, as columns of one table."""

    graph: Ints
    identifier: Ints
    label: Ints
    multiplicity: Ints


def lay_out(
    sources: Sources,
    target_identifier: Int[np.ndarray, "graphs identifiers"],
    answer_label: Int[np.ndarray, "graphs identifiers"],
    answer_count: Int[np.ndarray, "graphs identifiers"],
    scale: Int[np.ndarray, " graphs"],
    *,
    num_centres: int,
    centre_label: int,
    target_label: int,
    reverse_edges: bool = False,
) -> TwoRadiusBatch:
    """Place sources, centres and targets, and link every centre to all sources and targets.

    Args:
        sources: source nodes with ``graph`` ascending, in their final order inside each graph.
        target_identifier: identifiers of the targets of each graph, in their final order.
        answer_label: right label by graph and identifier.
        answer_count: right count by graph and identifier.
        scale: replication scale of each graph.
        num_centres: centres per graph.
        centre_label: label entry of every centre.
        target_label: label entry of every target.
        reverse_edges: also link targets to centres and centres to sources.
    """
    num_graphs, num_targets = target_identifier.shape
    num_sources = np.bincount(sources.graph, minlength=num_graphs)
    size = num_sources + num_centres + num_targets
    start = np.cumsum(size) - size
    first_source = np.cumsum(num_sources) - num_sources
    source_at = np.arange(len(sources.graph)) + (start - first_source)[sources.graph]
    centre_at = (start + num_sources)[:, None] + np.arange(num_centres)
    target_at = (start + num_sources + num_centres)[:, None] + np.arange(num_targets)

    num_nodes = int(size.sum())
    identifier, label, role = (np.empty(num_nodes, np.int64) for _ in range(3))
    multiplicity = np.ones(num_nodes, np.int64)
    identifier[source_at], label[source_at], role[source_at] = sources.identifier, sources.label, SOURCE
    multiplicity[source_at] = sources.multiplicity
    centre_identifier = num_targets + np.arange(num_centres)
    identifier[centre_at], label[centre_at], role[centre_at] = centre_identifier, centre_label, CENTRE
    identifier[target_at], label[target_at], role[target_at] = target_identifier, target_label, TARGET

    inward = np.stack(np.broadcast_arrays(source_at[:, None], centre_at[sources.graph])).reshape(2, -1)
    outward = np.stack(np.broadcast_arrays(centre_at[:, None, :], target_at[:, :, None])).reshape(2, -1)
    edges = [inward, outward, inward[::-1], outward[::-1]] if reverse_edges else [inward, outward]
    return TwoRadiusBatch(
        identifier=torch.from_numpy(identifier),
        label=torch.from_numpy(label),
        role=torch.from_numpy(role),
        multiplicity=torch.from_numpy(multiplicity),
        edge_index=torch.from_numpy(np.concatenate(edges, axis=1)),
        batch=torch.from_numpy(np.repeat(np.arange(num_graphs), size)),
        y_label=torch.from_numpy(np.take_along_axis(answer_label, target_identifier, axis=1).reshape(-1)),
        y_count=torch.from_numpy(np.take_along_axis(answer_count, target_identifier, axis=1).reshape(-1)),
        scale=torch.from_numpy(scale),
        num_graphs=num_graphs,
    )


def shuffled_rows(rng: np.random.Generator, rows: int, columns: int) -> Int[np.ndarray, "rows columns"]:
    """Draw a uniformly random order of ``range(columns)`` for each row."""
    return rng.permuted(np.broadcast_to(np.arange(columns), (rows, columns)), axis=1)
