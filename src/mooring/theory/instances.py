"""Two-Radius as the proofs use it: permutations, their rank, and batches of nodes (graph, identifier, label, count)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor


def all_permutations(n: int) -> Int64[Tensor, "factorial n"]:
    """Every permutation of ``range(n)``, in lexicographic order, so that row number and rank agree."""
    return torch.tensor(list(itertools.permutations(range(n))), dtype=torch.long).reshape(math.factorial(n), n)


def random_permutations(count: int, n: int, generator: torch.Generator) -> Int64[Tensor, "count n"]:
    """Independent uniform permutations of ``range(n)``."""
    return torch.rand(count, n, generator=generator, dtype=torch.float64).argsort(dim=1)


def all_tables(n: int, alphabet: int) -> Int64[Tensor, "tables n"]:
    """Every assignment of one of ``alphabet`` labels to each of ``n`` identifiers.

    Example:
        >>> all_tables(2, 2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return torch.tensor(list(itertools.product(range(alphabet), repeat=n)), dtype=torch.long)


def rank(permutations: Int64[Tensor, "count n"]) -> Int64[Tensor, " count"]:
    """The lexicographic number of each permutation, by its Lehmer code.

    Example:
        >>> bool((rank(all_permutations(4)) == torch.arange(24)).all())
        True
    """
    n = permutations.shape[1]
    total = torch.zeros(len(permutations), dtype=torch.long)
    for position in range(n):
        smaller_later = (permutations[:, position + 1 :] < permutations[:, position : position + 1]).sum(dim=1)
        total += smaller_later * math.factorial(n - 1 - position)
    return total


@dataclass(frozen=True)
class Instances:
    """The sources, or the targets, of a batch of graphs: one entry per node, in any order.

    Args:
        graph: graph of each node.
        identifier: identifier i of each node.
        label: ``pi(i)``, which a source carries and a target must give.
        count: how many sources of the graph carry the identifier.
        num_graphs: number of graphs.
    """

    graph: Int64[Tensor, " nodes"]
    identifier: Int64[Tensor, " nodes"]
    label: Int64[Tensor, " nodes"]
    count: Int64[Tensor, " nodes"]
    num_graphs: int

    def shuffled(self, generator: torch.Generator) -> Instances:
        """The same nodes in another order."""
        return self.take(torch.randperm(len(self.graph), generator=generator))

    def take(self, order: Int64[Tensor, " chosen"]) -> Instances:
        """The nodes at the given positions."""
        return replace(
            self,
            graph=self.graph[order],
            identifier=self.identifier[order],
            label=self.label[order],
            count=self.count[order],
        )

    def copied(self) -> Instances:
        """Every node as many times as its count says, as the counted task renders its sources."""
        return self.take(torch.arange(len(self.graph)).repeat_interleave(self.count))

    def scaled(self, factor: int) -> Instances:
        """The instance ``(pi, r c)``."""
        return replace(self, count=self.count * factor)


def table_instances(labels: Int64[Tensor, "graphs n"], counts: Int64[Tensor, "graphs n"] | None = None) -> Instances:
    """One node for every identifier of every graph, labelled and counted by the given tables."""
    num_graphs, n = labels.shape
    return Instances(
        graph=torch.arange(num_graphs).repeat_interleave(n),
        identifier=torch.arange(n).repeat(num_graphs),
        label=labels.flatten(),
        count=torch.ones_like(labels).flatten() if counts is None else counts.flatten(),
        num_graphs=num_graphs,
    )


def every_permutation(n: int, generator: torch.Generator) -> tuple[Instances, Instances]:
    """Sources and targets of all ``n!`` instances, each side in its own random order."""
    nodes = table_instances(all_permutations(n))
    return nodes.shuffled(generator), nodes.shuffled(generator)


def sampled_permutations(n: int, count: int, generator: torch.Generator) -> tuple[Instances, Instances]:
    """Sources and targets of random instances, each side in its own random order."""
    nodes = table_instances(random_permutations(count, n, generator))
    return nodes.shuffled(generator), nodes.shuffled(generator)


def every_table(n: int, alphabet: int, generator: torch.Generator) -> tuple[Instances, Instances]:
    """Sources and targets of all assignments of labels, each side in its own random order."""
    nodes = table_instances(all_tables(n, alphabet))
    return nodes.shuffled(generator), nodes.shuffled(generator)


def sampled_tables(n: int, alphabet: int, count: int, generator: torch.Generator) -> tuple[Instances, Instances]:
    """As :func:`every_table`, for random assignments."""
    nodes = table_instances(torch.randint(alphabet, (count, n), generator=generator))
    return nodes.shuffled(generator), nodes.shuffled(generator)


def every_counted(n: int, max_count: int, scales: int, generator: torch.Generator) -> Instances:
    """Every permutation with every base count in ``1..max_count`` for every identifier, at every scale."""
    permutations = all_permutations(n)
    bases = torch.tensor(list(itertools.product(range(1, max_count + 1), repeat=n)))
    labels = permutations.repeat_interleave(len(bases) * scales, dim=0)
    scaled = torch.cat([bases * scale for scale in range(1, scales + 1)])
    return table_instances(labels, scaled.repeat(len(permutations), 1)).shuffled(generator)


def sampled_counted(n: int, max_count: int, count: int, generator: torch.Generator) -> Instances:
    """Random permutations with independent base counts in ``1..max_count``."""
    counts = torch.randint(1, max_count + 1, (count, n), generator=generator)
    return table_instances(random_permutations(count, n, generator), counts).shuffled(generator)


def benchmark_batch(
    n: int, assignments: int, generator: torch.Generator, *, max_count: int = 1, scales: Sequence[int] = (1,)
) -> tuple[Instances, Instances]:
    """Sources and targets of a batch as models are trained on: ``c_i = r a_i`` copies of source ``(i, pi(i))``.

    An assignment is a permutation ``pi`` and base counts ``a_i``, rendered once at every scale r. Graphs come one after
    another; inside a graph, sources and targets are each in random order. The benchmark draws with numpy, and so does
    this: from one numpy generator both give the same nodes in the same order.

    Paper: sec:benchmarks A, app:protocol. Departs: without the centres, which neither write nor answer.

    Args:
        n: identifiers and labels.
        assignments: how many permutations to draw.
        generator: seeds the numpy generator.
        max_count: largest base count.
        scales: scales of each assignment.
    """
    rng = np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))

    def row_orders(rows: int) -> Int64[np.ndarray, "rows n"]:
        return rng.permuted(np.broadcast_to(np.arange(n), (rows, n)), axis=1)

    label = torch.from_numpy(row_orders(assignments))
    base = torch.from_numpy(rng.integers(1, max_count, (assignments, n), endpoint=True))
    factor = torch.tensor(scales).repeat(assignments)
    count = base.repeat_interleave(len(scales), dim=0) * factor.unsqueeze(1)
    nodes = table_instances(label.repeat_interleave(len(scales), dim=0), count)
    target = nodes.take(torch.from_numpy(row_orders(len(factor)) + n * np.arange(len(factor))[:, None]).flatten())
    copies = nodes.copied()
    # A fraction added to the graph number shuffles inside graphs and keeps the graphs in order.
    source = copies.take(torch.from_numpy(np.argsort(copies.graph.numpy() + rng.random(len(copies.graph)))))
    return source, target
