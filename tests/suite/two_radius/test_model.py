"""The local layers on merged nodes, and what the whole network may and may not see."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring.suite.two_radius import TwoRadiusExperiment, TwoRadiusNet
from mooring.suite.two_radius.data import CountedTask, TwoRadiusBatch, stream
from mooring.suite.two_radius.experiment import PAPER, TINY
from mooring.suite.two_radius.metrics import losses
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


MODELS = ["mpnn", "vn", "cross-attn", "anchored"]
CONFIG = TINY.but(init_std=0.5)
FULL = CountedTask(num_identifiers=5, num_centres=1, rendering="full")
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def network(model: str, dtype: torch.dtype = torch.float64, **changes: Any) -> TwoRadiusNet:
    """A network whose memory is far from the identity, so that a fault in it shows in the logits."""
    torch.manual_seed(0)
    net = TwoRadiusExperiment(replace(CONFIG, **changes), model, seed=0).build()
    assert isinstance(net, TwoRadiusNet)
    return net.to(dtype)


def outcome(net: TwoRadiusNet, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Logits, loss and the gradient of every parameter."""
    answer = net(batch)
    loss = sum(losses(answer, batch).values(), torch.zeros(()))
    net.zero_grad()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}
    assert answer.count is not None
    return {"label": answer.label.detach(), "count": answer.count.detach(), "loss": loss.detach(), **gradients}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("model", [*MODELS, "vn-sum"])
def test_collapsed_rendering_gives_the_same_logits_loss_and_gradients(model: str, dtype: torch.dtype) -> None:
    net = network(model, dtype)
    full, collapsed = (
        outcome(net, replace(FULL, rendering=rendering).batch(7, stream(0, "train")))  # type: ignore[arg-type]
        for rendering in ("full", "collapsed")
    )
    assert full.keys() == collapsed.keys()
    for name, value in full.items():
        # A sum-pooled state grows with the number of sources, and rounding grows with it.
        scale = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(collapsed[name] / scale, value / scale, rtol=0, atol=TOLERANCE[dtype], msg=name)


def test_ignoring_multiplicities_is_noticed() -> None:
    net = network("anchored")
    full = FULL.batch(7, stream(0, "train"))
    collapsed = replace(FULL, rendering="collapsed").batch(7, stream(0, "train"))
    once = replace(collapsed, multiplicity=torch.ones_like(collapsed.multiplicity))
    assert (outcome(net, full)["count"] - outcome(net, once)["count"]).abs().max() > 1e-3


def spread_over_scales(net: TwoRadiusNet) -> float:
    """Largest difference between the logits of one target at different scales."""
    batch = FULL.batch(7, stream(0, "train"))
    with torch.no_grad():
        answer = net(batch)
    assert answer.count is not None
    logits = torch.cat([answer.label, answer.count], dim=1).view(7, 3, 5, -1)
    identifier = batch.identifier[batch.targets].view(7, 3, 5)
    by_identifier = logits.gather(2, identifier.argsort(dim=2)[..., None].expand_as(logits))
    return float((by_identifier - by_identifier[:, :1]).abs().max())


@pytest.mark.parametrize("model", ["mpnn", "mpnn-additive", "mpnn-summed", "vn", "vn-joint", "vn-max", "cross-attn"])
def test_normalised_variants_are_blind_to_replication(model: str) -> None:
    assert spread_over_scales(network(model)) < 1e-12


@pytest.mark.parametrize("model", ["anchored", "vn-sum"])
def test_variants_with_a_mass_are_not(model: str) -> None:
    assert spread_over_scales(network(model)) > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_answers_do_not_depend_on_batch_mates(model: str) -> None:
    net = network(model)
    batch = FULL.batch(1, stream(0, "train"))
    bigger = FULL.batch(1, stream(0, "train", step=1))
    start, edges = batch.num_nodes, batch.edge_index.size(1)
    together = TwoRadiusBatch(
        **{
            name: torch.cat([getattr(batch, name), getattr(bigger, name)])
            for name in ("identifier", "label", "role", "multiplicity", "y_label", "y_count", "scale")
        },
        edge_index=torch.cat([batch.edge_index, bigger.edge_index + start], dim=1),
        batch=torch.cat([batch.batch, bigger.batch + batch.num_graphs]),
        num_graphs=batch.num_graphs + bigger.num_graphs,
    )
    assert together.edge_index.size(1) > edges
    torch.testing.assert_close(net(together).label[: len(batch.y_label)], net(batch).label, rtol=1e-12, atol=1e-12)


def test_variants_share_one_backbone_and_differ_in_the_memory_only() -> None:
    shapes = []
    for model in MODELS:
        parameters = TwoRadiusExperiment(PAPER, model, seed=0).build().named_parameters()
        shapes.append({name: value.shape for name, value in parameters if not name.startswith("memory.")})
    assert shapes[0] == shapes[1] == shapes[2] == shapes[3]
    count = sum(shape.numel() for shape in shapes[0].values())
    embeddings = (13 + 13 + 3) * 128
    encoder = (3 * 128 + 1) * 128 + (128 + 1) * 128 + 2 * 128
    convs = 3 * ((2 * 128 + 1) * 128 + (128 + 1) * 128)
    heads = 2 * ((128 + 1) * 128 + (128 + 1) * 12)
    assert count == embeddings + encoder + convs + heads


def test_anchors_and_mass_are_all_that_anchored_adds() -> None:
    plain, anchored = (
        {name: value.shape for name, value in network(model).named_parameters()} for model in ("cross-attn", "anchored")
    )
    assert {name.split(".")[2] for name in anchored.keys() - plain.keys()} == {
        "anchor_logit",
        "anchor_value",
        "mass_mlp",
    }
    assert plain.items() <= anchored.items()


def test_memory_is_handed_out_when_asked_for() -> None:
    batch = FULL.batch(2, stream(0, "train"))
    net = network("anchored")
    assert net(batch).memory is None
    assert net(batch, return_state=True).memory.slots.shape == (6, 5, 32)
    torch.testing.assert_close(net(batch).label, net(batch, return_state=True).label)
