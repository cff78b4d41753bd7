import pytest
import torch

from mooring.suite.two_radius.data import CountedTask, stream
from mooring.suite.two_radius.model import MeanConv, local_graph

# Nodes 0-3 send to 4, node 3 also to 5; 0 and 2 are of one kind, and so are 4 and 5, which receive.
KIND = torch.tensor([7, 8, 7, 9, 5, 5])
EDGES = torch.tensor([[0, 1, 2, 3, 3], [4, 4, 4, 4, 5]])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)


def test_only_equal_nodes_that_receive_nothing_are_merged() -> None:
    graph = local_graph(KIND, EDGES, WEIGHT)
    assert len(graph.node) == 5
    assert graph.position[0] == graph.position[2]
    assert graph.position.unique().numel() == 5
    assert torch.equal(KIND[graph.node][graph.position], KIND)


def test_shares_of_a_receiver_sum_to_one() -> None:
    graph = local_graph(KIND, EDGES, WEIGHT)
    torch.testing.assert_close(graph.share, torch.tensor([0.1, 0.2, 0.3, 0.4, 1.0], dtype=torch.float64))


def reference(conv: MeanConv, x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The layer node by node, with the first map of its MLP in one piece."""
    rows = []
    for v in range(len(x)):
        mine = edges[1] == v
        senders, w = x[edges[0, mine]], weight[mine]
        mean = (w[:, None] * senders).sum(0) / w.sum() if mine.any() else torch.zeros_like(x[0])
        if conv.joint:
            first = torch.cat([conv.own.weight, conv.received.weight], dim=1)
            rows.append(x[v] + conv.out(torch.relu(first @ torch.cat([x[v], mean]) + conv.own.bias)))
        elif mine.any():
            heard = conv.out(torch.relu(conv.received(senders)))
            rows.append(x[v] + (w[:, None] * heard).sum(0) / w.sum())
        else:
            rows.append(x[v])
    return torch.stack(rows)


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "additive"])
@pytest.mark.parametrize("rendering", ["full", "collapsed"])
def test_layers_on_the_merged_graph_give_the_states_and_gradients_of_the_plain_ones(
    rendering: str, joint: bool
) -> None:
    task = CountedTask(num_identifiers=3, max_base_count=2, scales=(1, 3), num_centres=2, rendering=rendering)  # type: ignore[arg-type]
    batch = task.batch(2, stream(0, "train"))
    kind = (batch.identifier * 5 + batch.label) * 3 + batch.role
    torch.manual_seed(0)
    convs = [MeanConv(7, joint=joint).double() for _ in range(2)]
    table = torch.randn(int(kind.max()) + 1, 7, dtype=torch.float64, requires_grad=True)
    parameters = [table, *(parameter for conv in convs for parameter in conv.parameters())]

    graph = local_graph(kind, batch.edge_index, batch.edge_weight)
    merged = table[kind][graph.node]
    plain = table[kind]
    for conv in convs:
        merged = conv(merged, graph)
        plain = reference(conv, plain, batch.edge_index, batch.edge_weight)
    torch.testing.assert_close(merged[graph.position], plain, rtol=1e-12, atol=1e-12)

    probe = torch.randn(plain.shape, dtype=torch.float64)
    ours = torch.autograd.grad((merged[graph.position] * probe).sum(), parameters)
    theirs = torch.autograd.grad((plain * probe).sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_paper_minibatch_has_few_sources_to_compute() -> None:
    batch = CountedTask().batch(32, stream(0, "train"))
    kind = (batch.identifier * 13 + batch.label) * 3 + batch.role
    graph = local_graph(kind, batch.edge_index, batch.edge_weight)
    assert len(graph.node) <= 144 + 96 + 96 * 12
    assert len(graph.sender) <= 144 + 96
    assert batch.num_nodes > 5000
