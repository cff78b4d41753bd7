"""Batches of Two-Radius instances as flat node lists: (graph, identifier, label, count) of sources and of targets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64
from torch import Tensor

from mooring.theory.permutations import all_permutations, random_permutations


@dataclass(frozen=True)
class Instances:
    """One side of a batch of instances: a node for each entry, in any order, with its graph, identifier and answer."""

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
