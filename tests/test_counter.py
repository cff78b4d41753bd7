"""The work of a call, counted."""

import torch
from torch import nn

from mooring.counter import OperationCounter
from mooring.models import Adjacency


def test_matrix_products_count_their_arithmetic() -> None:
    left, right = torch.randn(3, 5), torch.randn(5, 7)
    with OperationCounter() as counter:
        left @ right
    assert counter.operations == 2 * 3 * 5 * 7


def test_fused_attention_counts_its_pairs() -> None:
    query, key, value = torch.randn(1, 2, 11, 8), torch.randn(1, 2, 13, 8), torch.randn(1, 2, 13, 8)
    with OperationCounter() as counter:
        nn.functional.scaled_dot_product_attention(query, key, value)
    assert counter.operations >= 2 * 2 * 11 * 13 * 8 * 2


def test_views_are_free_and_other_operations_count_elements() -> None:
    x = torch.randn(3, 5)
    with OperationCounter() as counter:
        x.t().reshape(5, 3)
    assert counter.operations == 0
    with OperationCounter() as counter:
        x.exp()
    assert counter.operations == 15


def test_products_that_accumulate_count_like_the_others() -> None:
    with OperationCounter() as counter:
        torch.addmm(torch.zeros(2, 5), torch.zeros(2, 3), torch.zeros(3, 5))
        torch.zeros(7, 2, 5).baddbmm_(torch.zeros(7, 2, 3), torch.zeros(7, 3, 5))
    assert counter.multiply_adds == 2 * 3 * 5 * (1 + 7)


def test_every_exponential_is_a_pair() -> None:
    with OperationCounter() as counter:
        torch.zeros(3, 5).exp_()
        torch.zeros(2, 7).softmax(dim=1)
    assert counter.pairs == 3 * 5 + 2 * 7
    assert counter.multiply_adds == 0


def test_sparse_products_count_what_is_stored() -> None:
    counts = []
    for nodes in (100, 200):
        edges = torch.stack([torch.arange(3 * nodes) % nodes, torch.arange(3 * nodes) * 7 % nodes])
        adjacency = Adjacency(edges, nodes)
        with OperationCounter() as counter:
            adjacency.mean(torch.randn(nodes, 5))
        counts.append(counter.multiply_adds)
        assert counts[-1] == edges.unique(dim=1).size(1) * 5
    assert counts[1] == 2 * counts[0]
