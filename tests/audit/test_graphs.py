"""Batches of graphs: permuted, joined, replicated."""

import torch

from mooring.audit.graphs import collate, random_graph, single


def edges(graph: object) -> set[tuple[float, float]]:
    """The edges, named by the features of their ends, so that node order does not matter."""
    return {(float(graph.x[a, 0]), float(graph.x[b, 0])) for a, b in graph.edge_index.T.tolist()}  # type: ignore[attr-defined]


def test_permute_keeps_graphs_and_edges() -> None:
    generator = torch.Generator().manual_seed(0)
    batch = collate([random_graph(generator, nodes, 3) for nodes in (5, 7)])
    order = torch.randperm(12, generator=generator)
    moved = batch.permute(order)
    assert torch.equal(moved.x, batch.x[order])
    assert torch.equal(moved.index, batch.index[order])
    assert edges(moved) == edges(batch)


def test_collate_keeps_the_id_of_an_empty_graph() -> None:
    generator = torch.Generator().manual_seed(0)
    batch = collate([random_graph(generator, 3, 2), single(torch.empty(0, 2)), random_graph(generator, 5, 2)])
    assert batch.num_graphs == 3
    assert batch.index.unique().tolist() == [0, 2]
    assert bool((batch.index[batch.edge_index[0]] == batch.index[batch.edge_index[1]]).all())


def test_replicate_repeats_nodes_and_edges_without_joining_copies() -> None:
    graph = random_graph(torch.Generator().manual_seed(0), 5, 2)
    many = graph.replicate(3)
    assert torch.equal(many.x, graph.x.repeat(3, 1))
    assert many.num_graphs == 1
    assert bool((many.edge_index[0] // 5 == many.edge_index[1] // 5).all())
    assert edges(many) == edges(graph)
