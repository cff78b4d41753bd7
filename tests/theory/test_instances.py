import torch

from mooring.theory.instances import every_counted, every_permutation, sampled_counted, table_instances


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
    source, target = every_permutation(3, torch.Generator().manual_seed(0))
    plain = table_instances(source.label[(source.graph * 3 + source.identifier).argsort()].view(6, 3))
    for side in (source, target):
        order = (side.graph * 3 + side.identifier).argsort()
        assert torch.equal(side.label[order], plain.label)
