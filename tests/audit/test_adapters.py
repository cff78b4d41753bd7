"""Calling conventions, their detection, and the graphs that modules are called with."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GPSConv, SumAggregation, global_add_pool
from torch_geometric.nn.attention import SGFormerAttention

from audit.specimens import Broadcast, Elsewhere, OnlyFloat32, SumReadout, WithDropout
from mooring.audit import adapt, detect_kind
from mooring.audit.adapters import collate, random_graph, relative_difference, single


def batch(*sizes: int, channels: int = 7):  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(0)
    return collate([random_graph(generator, nodes, channels) for nodes in sizes])


@pytest.mark.parametrize(
    ("module", "kind", "per_node"),
    [
        (SumAggregation(), "aggregation", False),
        (Broadcast(7), "virtual_node", True),
        (SumReadout(), "virtual_node", False),
        (global_add_pool, "virtual_node", False),
        (GPSConv(7, conv=None), "layer", True),
        (GINConv(nn.Linear(7, 3)), "layer", True),
        (SGFormerAttention(7, head_channels=5), "dense", True),
    ],
)
def test_kind_is_detected(module: nn.Module, kind: str, per_node: bool) -> None:
    adapter = adapt(module, channels=7)
    assert adapter.kind == kind
    assert adapter.per_node == per_node
    graphs = batch(3, 5)
    assert adapter(graphs).size(0) == (8 if per_node else 2)
    assert adapter.rows(graphs, 1).size(0) == (5 if per_node else 1)


def test_unknown_arguments_are_named() -> None:
    class Odd(nn.Module):
        def forward(self, features: Tensor) -> Tensor:
            return features

    with pytest.raises(ValueError, match=r"cannot infer the calling convention of Odd .*features.* kind="):
        detect_kind(Odd())


def test_kind_can_be_overridden_and_is_checked() -> None:
    class Named(nn.Module):
        def forward(self, nodes: Tensor, graph: Tensor) -> Tensor:
            return nodes

    assert adapt(Named(), "virtual_node", 7).per_node
    with pytest.raises(ValueError, match=r"kind='node' is unknown; expected one of 'aggregation'"):
        adapt(Named(), "node", 7)


def test_the_wrong_width_is_explained() -> None:
    with pytest.raises(ValueError, match=r"Broadcast raised .* channels=5, .*Pass the channels="):
        adapt(Broadcast(7), channels=5)


def test_rows_that_are_neither_nodes_nor_graphs_are_refused() -> None:
    def twice(x: Tensor, batch: Tensor) -> Tensor:
        return torch.cat([x, x])

    with pytest.raises(ValueError, match=r"twice gave 10 rows for one graph of 5 nodes"):
        adapt(twice, channels=7)


def test_the_callers_module_is_left_as_it_was() -> None:
    module = WithDropout()
    adapter = adapt(module, channels=7)
    assert module.training
    assert not adapter.module.training  # type: ignore[attr-defined]
    assert torch.equal(adapter(batch(5)), adapter(batch(5)))
    assert torch.get_default_dtype() == torch.float32


def test_a_module_on_another_device_is_measured_on_the_cpu() -> None:
    module = Elsewhere()
    assert adapt(module, channels=7)(batch(3, 5)).shape == (2, 7)
    assert module.place == "cuda"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(3.0, 2.0, 0.5), *((a, b, math.inf) for a, b in itertools.permutations((1.0, math.inf, math.nan), 2))],
)
def test_a_difference_that_is_no_number_is_infinite(a: float, b: float, expected: float) -> None:
    assert relative_difference(torch.tensor([a, 1.0]), torch.tensor([b, 1.0])) == expected


def test_a_module_that_refuses_float64_is_measured_in_float32() -> None:
    adapter = adapt(OnlyFloat32(), channels=7)
    assert adapter.dtype == torch.float32
    assert adapter.tolerance == pytest.approx(1e-4)


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
