"""Local layers against slow ones and against PyG's own."""

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from mooring.models import Adjacency, GatedGCN, Layer, MeshGraphNetConv
from support import assert_close, assert_same

NODES, EDGES, CHANNELS = 11, 29, 6


def edges() -> Tensor:
    index = torch.randint(0, NODES, (2, EDGES), generator=torch.Generator().manual_seed(3))
    # Node 0 receives nothing, and one edge is a loop.
    index[1] = index[1].clamp(min=1)
    index[:, -1] = 5
    return index.unique(dim=1)


def test_gated_gcn_is_its_formula() -> None:
    conv, index = GatedGCN(CHANNELS, norm=None).double(), edges()
    a, b, d, e = conv.lin_node.weight.chunk(4)
    bias = conv.lin_node.bias.chunk(4)

    def slow(x: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        nodes, changed = [], []
        for place, (source, target) in enumerate(index.T.tolist()):
            gate = conv.lin_edge.weight @ edge_attr[place] + d @ x[target] + bias[2] + e @ x[source] + bias[3]
            changed.append((gate, source, target))
        for node in range(NODES):
            opened = [(gate.sigmoid(), b @ x[source] + bias[1]) for gate, source, target in changed if target == node]
            top = sum((gate * value for gate, value in opened), torch.zeros(CHANNELS, dtype=torch.float64))
            bottom = sum((gate for gate, _ in opened), torch.zeros(CHANNELS, dtype=torch.float64))
            nodes.append(a @ x[node] + bias[0] + top / (bottom + 1e-6))
        return torch.stack(nodes), torch.stack(
            [edge_attr[place] + gate.relu() for place, (gate, _, _) in enumerate(changed)]
        )

    x = torch.randn(NODES, CHANNELS, dtype=torch.float64)
    edge_attr = torch.randn(index.size(1), CHANNELS, dtype=torch.float64)
    assert_same(lambda *given: conv(given[0], index, given[1]), slow, x, edge_attr)


def test_mesh_graph_net_is_its_formula() -> None:
    conv, index = MeshGraphNetConv(CHANNELS, hidden_layers=1).double(), edges()

    def mlp(first: Tensor, bias: Tensor, rest: nn.Sequential, given: Tensor) -> Tensor:
        # ReLU, the second map, layer norm: over everything that the MLP is given, side by side.
        return rest(first @ given + bias)

    def slow(x: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        of_edge = torch.cat([conv.lin_edge.weight, conv.lin_receiver.weight, conv.lin_sender.weight], dim=1)
        of_node = torch.cat([conv.lin_node.weight, conv.lin_message.weight], dim=1)
        changed = []
        for place, (source, target) in enumerate(index.T.tolist()):
            given = torch.cat([edge_attr[place], x[target], x[source]])
            changed.append(edge_attr[place] + mlp(of_edge, conv.lin_edge.bias, conv.edge_mlp, given))
        nodes = []
        for node in range(NODES):
            arrived = [edge for edge, target in zip(changed, index[1].tolist(), strict=True) if target == node]
            message = sum(arrived, torch.zeros(CHANNELS, dtype=torch.float64))
            nodes.append(mlp(of_node, conv.lin_node.bias, conv.node_mlp, torch.cat([x[node], message])))
        return torch.stack(nodes), torch.stack(changed)

    x = torch.randn(NODES, CHANNELS, dtype=torch.float64)
    edge_attr = torch.randn(index.size(1), CHANNELS, dtype=torch.float64)
    assert_same(lambda *given: conv(given[0], index, given[1]), slow, x, edge_attr)
    assert len([part for part in MeshGraphNetConv(CHANNELS).edge_mlp if isinstance(part, nn.Linear)]) == 2


@pytest.mark.parametrize("norm", ["layer", None])
def test_a_norm_before_the_convolution(norm: Any) -> None:
    layer, index = Layer(CHANNELS, "MeshGraphNetConv", norm=norm, pre_norm=True), edges()
    x, edge_attr = torch.randn(NODES, CHANNELS), torch.randn(index.size(1), CHANNELS)
    normed = nn.functional.layer_norm(x, (CHANNELS,)) if norm else x
    added, changed = layer.conv(normed, index, edge_attr)
    out, edges_after = layer(x, index, edge_attr)
    assert_close(out, x + added)
    assert_close(edges_after, changed)


@pytest.mark.parametrize("name", ["SAGEConv", "GCNConv"])
def test_an_adjacency_gives_what_edges_give(name: str) -> None:
    layer, index = Layer(CHANNELS, name, norm="layer").double(), edges()  # type: ignore[arg-type]
    adjacency = Adjacency(index, NODES)
    x = torch.randn(NODES, CHANNELS, dtype=torch.float64)
    assert_same(lambda x: layer(x, adjacency)[0], lambda x: layer(x, index)[0], x)
    # Scores are relu'd: a layer that gave nothing at all would pass.
    assert bool((layer(x, adjacency)[0] != x).any())


@pytest.mark.parametrize(
    "build",
    [
        partial(GCNConv, bias=False),
        partial(SAGEConv, bias=False),
        partial(SAGEConv, root_weight=False),
        partial(SAGEConv, normalize=True),
        partial(SAGEConv, project=True),
    ],
)
def test_an_adjacency_keeps_to_the_options_of_a_convolution(build: Callable[..., nn.Module]) -> None:
    layer, index = Layer(CHANNELS, lambda channels: build(channels, channels), norm="layer").double(), edges()
    x, adjacency = torch.randn(NODES, CHANNELS, dtype=torch.float64), Adjacency(index, NODES)
    assert_same(lambda x: layer(x, adjacency)[0], lambda x: layer(x, index)[0], x)


@pytest.mark.parametrize(
    ("conv", "options", "words"),
    [
        (GCNConv, {"normalize": False}, "GCNConv has normalize=False but .* has normalize=True. Pass edge_index"),
        (GCNConv, {"add_self_loops": False}, "add_self_loops=False"),
        (GCNConv, {"improved": True}, "improved=True"),
        (GCNConv, {"aggr": "max"}, "aggr='max'"),
        (SAGEConv, {"aggr": "sum"}, "SAGEConv has aggr='sum' but .* has aggr='mean'. Pass edge_index"),
        (SAGEConv, {"aggr": "max"}, "aggr='max'"),
        (SAGEConv, {"flow": "target_to_source"}, "flow='target_to_source'"),
    ],
)
def test_an_adjacency_refuses_options_it_has_no_product_for(
    conv: Callable[..., nn.Module], options: dict[str, Any], words: str
) -> None:
    layer = Layer(CHANNELS, lambda channels: conv(channels, channels, **options))
    with pytest.raises(ValueError, match=words):
        layer(torch.randn(NODES, CHANNELS), Adjacency(edges(), NODES))


def test_an_adjacency_has_all_derivatives() -> None:
    adjacency = Adjacency(edges(), NODES)
    x = torch.randn(NODES, 2, dtype=torch.float64, requires_grad=True)
    for product in (adjacency.mean, adjacency.symmetric):
        assert torch.autograd.gradcheck(product, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda x, product=product: product(x).sin(), x)


def test_an_adjacency_goes_through_torch_func() -> None:
    adjacency, x = Adjacency(edges(), NODES), torch.randn(3, NODES, 2, dtype=torch.float64)
    for product in (adjacency.mean, adjacency.symmetric):
        each = torch.stack([product(one) for one in x])
        assert_close(torch.func.vmap(product)(x), each)
        assert_close(torch.func.vmap(product, in_dims=1)(x.movedim(0, 1)), each)

        def score(one: Tensor, product: Callable[[Tensor], Tensor] = product) -> Tensor:
            return product(one).sin().sum()

        one = x[0].clone().requires_grad_()
        (expected,) = torch.autograd.grad(score(one), one)
        assert_close(torch.func.grad(score)(x[0]), expected)
        assert_close(torch.func.vmap(torch.func.grad(score))(x)[0], expected)


def test_an_adjacency_keeps_the_precision_of_the_nodes() -> None:
    adjacency = Adjacency(edges(), NODES)
    x = torch.randn(NODES, CHANNELS, dtype=torch.float64)
    conv = SAGEConv(CHANNELS, CHANNELS).double()
    assert adjacency.mean(x).dtype == torch.float64
    assert_close(conv.lin_l(adjacency.mean(x)) + conv.lin_r(x), conv(x, edges()))
    assert adjacency.mean(x.float()).dtype == torch.float32


@pytest.mark.parametrize("name", ["SAGEConv", "GCNConv"])
def test_an_adjacency_multiplies_under_autocast(name: str) -> None:
    layer, index = Layer(CHANNELS, name, norm="layer"), edges()  # type: ignore[arg-type]
    x = torch.randn(NODES, CHANNELS, requires_grad=True)
    expected = torch.autograd.grad(layer(x, index)[0].sin().sum(), x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, Adjacency(index, NODES))[0]
        # Backward belongs outside of autocast, but many call it inside.
        found = torch.autograd.grad(out.sin().sum(), x)[0]
    assert torch.allclose(out, layer(x, index)[0], atol=5e-2)
    assert torch.allclose(found, expected, atol=5e-2)


def test_an_adjacency_returns_half_precision_for_half_precision() -> None:
    x, adjacency = torch.randn(NODES, CHANNELS).bfloat16(), Adjacency(edges(), NODES)
    assert torch.equal(adjacency.mean(x), adjacency.mean(x.float()).bfloat16())


def test_an_adjacency_is_copied_pickled_and_moved() -> None:
    x, adjacency = torch.randn(NODES, CHANNELS), Adjacency(edges(), NODES)
    others = (copy.deepcopy(adjacency), pickle.loads(pickle.dumps(adjacency)), adjacency.to("cpu"))
    assert all(torch.equal(other.mean(x), adjacency.mean(x)) for other in others)
    with pytest.raises(ValueError, match=r"^Adjacency: adjacency is on meta but x is on cpu\."):
        adjacency.to("meta").mean(x)


@pytest.mark.parametrize(
    ("index", "kind", "words"),
    [
        ([[0, 5], [1, 1]], ValueError, "edge_index names nodes 0 to 5 but num_nodes is 3"),
        ([[0, -1], [1, 1]], ValueError, "edge_index names nodes -1 to 1 but num_nodes is 3"),
        ([[0, 1]], ValueError, r"edge_index has shape \(1, 2\) but \[2, edges\] was expected"),
        ([[0.0], [1.0]], TypeError, "edge_index has dtype torch.float32 but whole numbers were expected"),
    ],
)
def test_an_adjacency_refuses_edges_that_it_cannot_have(index: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=f"^Adjacency: {words}"):
        Adjacency(torch.tensor(index), 3)


@pytest.mark.parametrize("product", ["mean", "symmetric"])
@pytest.mark.parametrize(
    ("x", "kind", "words"),
    [
        (torch.ones(4, 1), ValueError, "x has 4 rows but the adjacency has 3 nodes"),
        (torch.tensor([[1], [2], [3]]), TypeError, "x has dtype int64 but a floating one was expected"),
        (torch.ones(3, 1).bool(), TypeError, "x has dtype bool"),
        (torch.ones(3), ValueError, "x has shape (3,) but [nodes, channels] was expected"),
        (None, TypeError, "x is None but a tensor was expected"),
    ],
)
def test_an_adjacency_refuses_other_nodes(product: str, x: Any, kind: type[Exception], words: str) -> None:
    """Whole numbers too, whose mean would be cut off to a whole number."""
    with pytest.raises(kind, match=rf"^Adjacency: {re.escape(words)}"):
        getattr(Adjacency(torch.tensor([[0], [1]]), 3), product)(x)


@pytest.mark.parametrize("name", ["GINEConv", "GINConv", "GatedGCN", "GCNConv", "SAGEConv", "MeshGraphNetConv"])
def test_every_layer_learns_and_resets(name: str) -> None:
    layer = Layer(CHANNELS, name)  # type: ignore[arg-type]
    x, index = torch.randn(NODES, CHANNELS), edges()
    edge_attr = torch.randn(index.size(1), CHANNELS)
    out, changed = layer(x, index, edge_attr)
    assert out.shape == x.shape
    assert changed is not None
    assert torch.equal(changed, edge_attr) == (name not in ("GatedGCN", "MeshGraphNetConv"))
    (out.square().sum() + changed.square().sum()).backward()
    assert [key for key, parameter in layer.named_parameters() if parameter.grad is None] == []
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7.0)
    layer.reset_parameters()
    for parameter, old in zip(layer.parameters(), before, strict=True):
        assert not bool((parameter == 7.0).all())
        assert parameter.shape == old.shape


def test_a_layer_of_ones_own() -> None:
    layer = Layer(CHANNELS, lambda channels: GATConv(channels, channels, edge_dim=channels), residual=False, norm=None)
    x, index = torch.randn(NODES, CHANNELS), edges()
    edge_attr = torch.randn(index.size(1), CHANNELS)
    assert_close(layer(x, index, edge_attr)[0], layer.conv(x, index, edge_attr).relu())


def test_edge_features_may_be_the_values_of_a_sparse_matrix() -> None:
    layer, index = Layer(CHANNELS, norm="layer"), edges()
    x, edge_attr = torch.randn(NODES, CHANNELS), torch.randn(index.size(1), CHANNELS)
    size = (NODES, NODES, CHANNELS)
    matrix = torch.sparse_coo_tensor(index.flip(0), edge_attr, size, check_invariants=True).coalesce()
    assert_close(layer(x, matrix)[0], layer(x, index, edge_attr)[0])


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: Layer(4, "GINE"), ValueError, "'GINEConv'"),
        (lambda: Layer(4, GCNConv(4, 4)), TypeError, "a function of the width was expected"),
        (lambda: Layer(4, norm="instance"), ValueError, "'batch', 'layer' or None"),
        (
            lambda: Layer(4, "GCNConv", pre_norm=True),
            ValueError,
            "^Layer: pre_norm=True .*, and GCNConv has no nonlinearity of its own. Pass pre_norm=False",
        ),
        (lambda: Layer(4, dropout=1.0), ValueError, r"a share in \[0, 1\)"),
        (
            lambda: Layer(4, "GINConv")(torch.randn(3, 4), Adjacency(torch.tensor([[0], [1]]), 3)),
            TypeError,
            "Pass edge",
        ),
        (
            lambda: Layer(4)(torch.randn(3, 4), torch.tensor([[0], [1]])),
            ValueError,
            "GINEConv needs edge features but edge_attr is None. Pass edge_attr, .* or use 'GINConv'",
        ),
        (
            lambda: Layer(4, "MeshGraphNetConv")(torch.randn(3, 4), torch.tensor([[0], [1]])),
            ValueError,
            "MeshGraphNetConv needs edge features but edge_attr is None",
        ),
    ],
)
def test_messages(build: object, error: type[Exception], words: str, as_users_run_it: None) -> None:
    with pytest.raises(error, match=words):
        build()  # type: ignore[operator]


def test_layers_print_on_one_line() -> None:
    assert repr(Layer(8, "GatedGCN", residual=False)) == "Layer(conv=GatedGCN, residual=False)"
    assert repr(GatedGCN(8)) == "GatedGCN(8)"
    assert repr(MeshGraphNetConv(8)) == "MeshGraphNetConv(8)"
