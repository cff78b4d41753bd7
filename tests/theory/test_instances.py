import math

import numpy as np
import pytest
import torch

from mooring.suite.two_radius.data import CountedTask
from mooring.theory.instances import (
    all_permutations,
    benchmark_batch,
    both_sides,
    every_counted,
    random_permutations,
    rank,
    sampled_counted,
    table_instances,
)
from support import digest


def test_all_permutations_are_all_and_ranked_in_order() -> None:
    permutations = all_permutations(5)
    assert len(torch.unique(permutations, dim=0)) == math.factorial(5)
    assert torch.equal(rank(permutations), torch.arange(math.factorial(5)))


def test_random_permutations_are_permutations_and_uniform() -> None:
    drawn = random_permutations(6000, 3, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.sort(dim=1).values, torch.arange(3).expand(6000, 3))
    # Six equally likely ranks: 1000 each, standard deviation 29.
    assert (torch.bincount(rank(drawn), minlength=6) - 1000).abs().max() < 120


def test_every_counted_instance_occurs_once() -> None:
    nodes = every_counted(n=3, max_count=2, scales=2, generator=torch.Generator().manual_seed(0))
    assert nodes.num_graphs == 6 * 8 * 2
    order = (nodes.graph * 3 + nodes.identifier).argsort()
    rows = torch.cat([nodes.label[order].view(-1, 3), nodes.count[order].view(-1, 3)], dim=1)
    # Counts 2 arise both as base 2 at scale 1 and as base 1 at scale 2: that graph is rendered twice.
    assert len(torch.unique(rows, dim=0)) == 6 * (8 + 8 - 1)


def test_copies_are_as_many_as_the_counts_say() -> None:
    nodes = sampled_counted(5, 3, 7, torch.Generator().manual_seed(0))
    copies = nodes.scaled(2).copied()
    assert len(copies.graph) == 2 * int(nodes.count.sum())
    first = (copies.graph == 0) & (copies.identifier == 2)
    assert int(first.sum()) == 2 * int(nodes.count[(nodes.graph == 0) & (nodes.identifier == 2)])


def test_shuffling_keeps_each_nodes_fields_together() -> None:
    source, target = both_sides(all_permutations(3), torch.Generator().manual_seed(0))
    plain = table_instances(source.label[(source.graph * 3 + source.identifier).argsort()].view(6, 3))
    for side in (source, target):
        order = (side.graph * 3 + side.identifier).argsort()
        assert torch.equal(side.label[order], plain.label)


@pytest.mark.parametrize(("max_count", "scales"), [(1, (1,)), (4, (1, 2, 3)), (3, (2, 5))])
def test_benchmark_batch_is_the_batch_that_models_are_trained_on(max_count: int, scales: tuple[int, ...]) -> None:
    source, target = benchmark_batch(7, 5, torch.Generator().manual_seed(3), max_count=max_count, scales=scales)
    seed = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(3)))
    batch = CountedTask(7, max_count, scales).batch(5, np.random.default_rng(seed))
    assert source.num_graphs == target.num_graphs == batch.num_graphs
    for side, mask in ((source, batch.sources), (target, batch.targets)):
        assert torch.equal(side.graph, batch.batch[mask])
        assert torch.equal(side.identifier, batch.identifier[mask])
    assert torch.equal(source.label, batch.label[batch.sources])
    assert torch.equal(target.label, batch.y_label)
    assert torch.equal(target.count, batch.y_count)


def test_batches_like_the_benchmarks() -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [benchmark_batch(5, 3, generator), benchmark_batch(4, 2, generator, max_count=3, scales=(1, 2))]
    assert digest(*(part for pair in batches for part in pair)) == "594cfaeec62fd41b"
