"""Two-Radius instances as the proofs use them: permutations, their ranks, and batches of labelled nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Generator, Tensor


def normal(generator: Generator, *shape: int) -> Float64[Tensor, "..."]:
    """Draw independent standard normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def all_permutations(n: int) -> Int64[Tensor, "factorial n"]:
    """Return every permutation of ``range(n)`` in lexicographic order, so that row number and rank agree."""
    return torch.tensor(list(itertools.permutations(range(n))), dtype=torch.long).reshape(math.factorial(n), n)


def random_permutations(count: int, n: int, generator: Generator) -> Int64[Tensor, "count n"]:
    """Draw independent uniform permutations of ``range(n)``."""
    return torch.rand(count, n, generator=generator, dtype=torch.float64).argsort(dim=1)


def all_tables(n: int, alphabet: int) -> Int64[Tensor, "tables n"]:
    """Return every assignment of one of ``alphabet`` labels to each of ``n`` identifiers, in lexicographic order."""
    return torch.tensor(list(itertools.product(range(alphabet), repeat=n)), dtype=torch.long)


def rank(permutations: Int64[Tensor, "count n"]) -> Int64[Tensor, " count"]:
    """Return the lexicographic number of each permutation, using its Lehmer code."""
    n = permutations.shape[1]
    total = torch.zeros(len(permutations), dtype=torch.long)
    for position in range(n):
        smaller_later = (permutations[:, position + 1 :] < permutations[:, position : position + 1]).sum(dim=1)
        total += smaller_later * math.factorial(n - 1 - position)
    return total


@dataclass(frozen=True)
class Instances:
    """Sources or targets of a batch of graphs: one entry per node, in any order.

    ``label`` is ``pi(i)``, the label of a source and the answer of a target; ``count`` is the number of sources of the
    graph with the node's identifier.
    """

    graph: Int64[Tensor, " nodes"]
    identifier: Int64[Tensor, " nodes"]
    label: Int64[Tensor, " nodes"]
    count: Int64[Tensor, " nodes"]
    num_graphs: int

    def shuffled(self, generator: Generator) -> Instances:
        """Return the same nodes in random order."""
        return self.take(torch.randperm(len(self.graph), generator=generator))

    def take(self, order: Int64[Tensor, " chosen"]) -> Instances:
        """Return the nodes at the given positions."""
        return Instances(
            self.graph[order], self.identifier[order], self.label[order], self.count[order], self.num_graphs
        )

    def copied(self) -> Instances:
        """Repeat every node ``count`` times, as the counted task renders its sources."""
        return self.take(torch.arange(len(self.graph)).repeat_interleave(self.count))

    def scaled(self, factor: int) -> Instances:
        """Return the instance ``(pi, r c)``."""
        return replace(self, count=self.count * factor)


def table_instances(labels: Int64[Tensor, "graphs n"], counts: Int64[Tensor, "graphs n"] | None = None) -> Instances:
    """Return one node per identifier per graph, labelled and counted by the given tables."""
    num_graphs, n = labels.shape
    return Instances(
        graph=torch.arange(num_graphs).repeat_interleave(n),
        identifier=torch.arange(n).repeat(num_graphs),
        label=labels.flatten(),
        count=torch.ones_like(labels).flatten() if counts is None else counts.flatten(),
        num_graphs=num_graphs,
    )


def both_sides(labels: Int64[Tensor, "graphs n"], generator: Generator) -> tuple[Instances, Instances]:
    """Return sources and targets of the labelled graphs, each side in a separate random order."""
    nodes = table_instances(labels)
    return nodes.shuffled(generator), nodes.shuffled(generator)


def every_counted(n: int, max_count: int, scales: int, generator: Generator) -> Instances:
    """Return every permutation with every base count in ``1..max_count`` of every identifier, at every scale."""
    permutations, bases = all_permutations(n), all_tables(n, max_count) + 1
    labels = permutations.repeat_interleave(len(bases) * scales, dim=0)
    scaled = torch.cat([bases * scale for scale in range(1, scales + 1)])
    return table_instances(labels, scaled.repeat(len(permutations), 1)).shuffled(generator)


def sampled_counted(n: int, max_count: int, count: int, generator: Generator) -> Instances:
    """Draw random permutations with independent base counts in ``1..max_count``."""
    counts = torch.randint(1, max_count + 1, (count, n), generator=generator)
    return table_instances(random_permutations(count, n, generator), counts).shuffled(generator)


def benchmark_batch(
    n: int, assignments: int, generator: Generator, *, max_count: int = 1, scales: Sequence[int] = (1,)
) -> tuple[Instances, Instances]:
    """Draw sources and targets of a training batch: ``c_i = r a_i`` copies of source ``(i, pi(i))``.

    An assignment is a permutation ``pi`` and base counts ``a_i``, rendered once per scale r. Graphs are contiguous.
    Inside a graph, sources and targets are each in random order. Draws use numpy, as in the benchmark: from the same
    numpy generator both return the same nodes in the same order.

    Paper: sec:benchmarks A, app:protocol. Departs: omits the centres, which neither write nor answer.
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
    # Adding a fraction to the graph number shuffles within graphs and keeps the graphs in order.
    source = copies.take(torch.from_numpy(np.argsort(copies.graph.numpy() + rng.random(len(copies.graph)))))
    return source, target
