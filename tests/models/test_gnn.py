"""The ready model: what goes where, and what a graph may not notice."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import MaxAggregation

from mooring import ops, zoo
from mooring.models import GNN, AtomEncoder, BondEncoder, OGBVirtualNode, Readout
from mooring.nn import SlotVirtualNode, VirtualNode
from support import assert_close

CHANNELS = 8
SIZES = (5, 1, 7)
Memory = partial(SlotVirtualNode, slots=3, heads=2, init_std=0.5)


def graphs(sizes: tuple[int, ...] = SIZES, seed: int = 0) -> dict[str, Tensor]:
    """Chains of the given sizes."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    first = (batch[1:] == batch[:-1]).nonzero().squeeze(1)
    edge_index = torch.stack([torch.cat([first, first + 1]), torch.cat([first + 1, first])])
    return {
        "x": torch.randint(0, 2, (len(batch), 9), generator=generator),
        "edge_index": edge_index,
        "edge_attr": torch.randint(0, 2, (edge_index.size(1), 3), generator=generator),
        "batch": batch,
    }


def part(given: dict[str, Tensor], graph: int) -> dict[str, Tensor]:
    """One graph of a batch by itself."""
    own = (given["batch"] == graph).nonzero().squeeze(1)
    edges = given["batch"][given["edge_index"][0]] == graph
    return {
        "x": given["x"][own],
        "edge_index": given["edge_index"][:, edges] - int(own[0]),
        "edge_attr": given["edge_attr"][edges],
    }


def model(**options: Any) -> GNN:
    settings = {"layers": 3, "norm": "layer", "edge_encoder": BondEncoder(CHANNELS), "memory": Memory, **options}
    return GNN(AtomEncoder(CHANNELS), CHANNELS, 2, **settings).double()


@pytest.mark.parametrize("conv", ["GINEConv", "GINConv", "GatedGCN", "GCNConv", "SAGEConv", "MeshGraphNetConv"])
@pytest.mark.parametrize("readout", ["mean", "sum", "mean+sum", "slots", None])
def test_graphs_do_not_notice_their_batch_mates(conv: str, readout: str | None) -> None:
    net, given = model(conv=conv, readout=readout), graphs()
    out = net(**given)
    assert out.shape == ((3, 2) if readout else (13, 2))
    for graph in range(3):
        alone = net(**part(given, graph))
        assert_close(alone, out[graph : graph + 1] if readout else out[given["batch"] == graph])


def test_with_a_norm_before_each_layer_the_head_sees_normed_nodes() -> None:
    net, given = model(conv="MeshGraphNetConv", pre_norm=True, readout=None), graphs()
    seen: list[Tensor] = []
    net.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    out = net(**given)
    assert_close(seen[0].mean(dim=1), torch.zeros(13, dtype=torch.float64))
    out.square().sum().backward()
    assert [key for key, parameter in net.named_parameters() if parameter.grad is None] == []
    for graph in range(3):
        assert_close(net(**part(given, graph)), out[given["batch"] == graph])


def test_a_memory_for_the_whole_batch_would_be_noticed() -> None:
    class Leaky(nn.Module):
        def forward(self, x: Tensor, **_: Any) -> Tensor:
            return x + x.mean(dim=0)

    net, given = model(memory=Leaky()), graphs()
    assert not torch.allclose(net(**part(given, 0)), net(**given)[:1])


@pytest.mark.parametrize("carry", [False, True])
def test_node_order_does_not_matter(carry: bool) -> None:
    net, given = model(carry=carry), graphs()
    order = torch.randperm(13)
    place = order.argsort()
    moved = {
        "x": given["x"][order],
        "edge_index": place[given["edge_index"]],
        "edge_attr": given["edge_attr"],
        "batch": given["batch"][order],
    }
    assert_close(net(**moved), net(**given))


def test_a_plan_or_ptr_gives_what_batch_gives() -> None:
    net, given = model(), graphs()
    out = net(**given)
    batch = given.pop("batch")
    assert_close(net(**given, plan=ops.plan(batch)), out)
    assert_close(net(**given, batch=ops.plan(batch)), out)
    assert_close(net(**given, batch=batch, ptr=torch.tensor([0, 5, 6, 13])), out)
    assert net(**given, batch=batch, num_graphs=5).shape == (5, 2)


PLAN = ops.plan(torch.tensor([0] * 5 + [1] + [2] * 7))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"plan": PLAN, "batch": PLAN.batch}, ValueError, "GNN: got plan and batch. Pass one of them"),
        ({"plan": PLAN, "ptr": torch.tensor([0, 5, 6, 13])}, ValueError, "GNN: got plan and ptr"),
        ({"batch": PLAN, "ptr": torch.tensor([0, 5, 6, 13])}, ValueError, "GNN: got a plan and ptr"),
        ({"plan": PLAN, "num_graphs": 7}, ValueError, "GNN: num_graphs says 7 but the plan was made for 3"),
        ({"plan": ops.plan(num_nodes=4)}, ValueError, "GNN: x says 13 but the plan was made for 4"),
        ({"plan": PLAN.batch}, TypeError, r"GNN: plan is .*Tensor.* but a Plan was expected"),
        ({"batch": torch.zeros(4, dtype=torch.long)}, ValueError, "GNN: batch has"),
        ({"batch": PLAN.batch, "ptr": torch.tensor([0, 3])}, ValueError, "GNN: ptr"),
    ],
)
def test_contradicting_graphs_are_refused(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        model()(**{**graphs(), "batch": None, **given})


def test_the_plan_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, given, made, init = model(), graphs(), [], ops.Plan.__init__

    def noted(plan: ops.Plan, *arguments: Any, **options: Any) -> None:
        made.append(plan)
        init(plan, *arguments, **options)

    monkeypatch.setattr(ops.Plan, "__init__", noted)
    net(**given)
    assert len(made) == 1


@pytest.mark.parametrize("options", [{"log_size": "nodes"}, {"readout": "sum", "log_size": "head"}])
def test_a_single_graph_is_on_the_device_of_its_nodes(options: dict[str, Any]) -> None:
    x, edge_index = torch.randn(4, 5, device="meta"), torch.zeros(2, 3, dtype=torch.long, device="meta")
    net = GNN(5, CHANNELS, 1, conv="SAGEConv", memory=Memory, **options).to("meta")
    assert net(x, edge_index).device == x.device


def test_memories_stand_where_they_are_told() -> None:
    assert list(model().memory) == ["0", "1"]
    assert list(model(layers=1).memory) == ["0"]
    assert list(model(memory_after=[2, 0]).memory) == ["0", "2"]
    assert list(model(memory=None).memory) == []
    assert list(model(memory=lambda channels: None).memory) == []
    shared = SlotVirtualNode(CHANNELS, 3, heads=2)
    net = model(memory=shared)
    assert all(one is shared for one in net.memory.values())
    assert {name.split(".")[0] for name, _ in model().named_parameters()} >= {"memory"}


def test_a_carried_memory_is_the_chain_of_its_layers() -> None:
    net, given = model(carry=True, memory_after=(0, 2), readout=None), graphs()
    plan = ops.plan(given["batch"])
    h, edges = net.encoder(given["x"]), net.edge_encoder(given["edge_attr"])
    h, edges = net.layers[0](h, given["edge_index"], edges)
    h, first = net.memory["0"](h, plan=plan, return_state=True)
    h, edges = net.layers[1](h, given["edge_index"], edges)
    h, edges = net.layers[2](h, given["edge_index"], edges)
    h, second = net.memory["2"](h, plan=plan, memory=first, return_state=True)
    out, kept = net(**given, return_state=True)
    assert_close(out, net.head(h))
    assert_close(kept[2].slots, second.slots)
    assert kept[0].write_weights is not None
    # The control: without it, something else comes out.
    net.carry = False
    assert not torch.allclose(net(**given), out)


def test_modules_made_for_it_are_carried_and_others_asked_in_vain_are_named() -> None:
    assert model(memory=OGBVirtualNode).carry
    assert not model().carry
    assert not model(memory=OGBVirtualNode, carry=False).carry
    spec = zoo.MemorySpec(channels=CHANNELS, slots=3, heads=2)
    assert model(memory=lambda channels: zoo.filled(OGBVirtualNode(channels), spec)).carry
    with pytest.raises(ValueError, match="VirtualNode takes no memory of the layer before"):
        model(memory=VirtualNode, carry=True)
    with pytest.raises(ValueError, match="DenseAttention takes no memory of the layer before"):
        model(memory=lambda channels: zoo.build("transformer", spec), carry=True)
    with pytest.raises(ValueError, match="SlotSoftmaxVirtualNode takes no memory of the layer before"):
        model(memory=lambda channels: zoo.build("gmt", spec), carry=True)


@pytest.mark.parametrize("where", ["nodes", "head"])
def test_the_size_of_a_graph_is_seen_where_it_is_shown(where: str) -> None:
    """Two chains of equal nodes and mean readout: nothing but the size can tell them apart."""
    x = torch.zeros(9, 9, dtype=torch.long)
    loops = torch.arange(9).expand(2, -1)
    given = {"x": x, "edge_index": loops, "batch": torch.tensor([0] * 3 + [1] * 6)}
    told = model(edge_encoder=None, conv="GCNConv", memory=None, log_size=where)(**given)
    assert not torch.allclose(told[0], told[1])
    blind = model(edge_encoder=None, conv="GCNConv", memory=None)(**given)
    assert_close(blind[0], blind[1])
    counts = model(edge_encoder=None, conv="GCNConv", memory=None, readout="sum")(**given)
    assert not torch.allclose(counts[0], counts[1])


def test_sums_are_measured_in_a_typical_size() -> None:
    x, plan = torch.randn(6, CHANNELS), ops.plan(torch.tensor([0, 0, 2, 2, 2, 2]))
    mean, total = Readout(CHANNELS, "mean+sum", typical_size=4.0)(x, plan).chunk(2, dim=1)
    assert_close(mean[2], x[2:].mean(dim=0))
    assert_close(total[2], mean[2])
    assert_close(total[0], 0.5 * mean[0])
    assert not bool(mean[1].any() or total[1].any())
    assert_close(Readout(CHANNELS, MaxAggregation())(x, plan)[0], x[:2].amax(dim=0))
    with pytest.raises(ValueError, match=f"Readout: x has width 3 but channels={CHANNELS}"):
        Readout(CHANNELS)(x[:, :3], plan)
    with pytest.raises(TypeError, match="Readout: x is None"):
        Readout(CHANNELS)(None, plan)
    assert_close(Readout(CHANNELS)(x, plan.batch, num_graphs=plan.num_graphs), Readout(CHANNELS)(x, plan=plan))


def test_positions_are_added_and_asked_for() -> None:
    net, given = model(position=4), graphs()
    pe = torch.rand(13, 4, dtype=torch.float64)
    assert not torch.allclose(net(**given, pe=pe), net(**given, pe=pe.flip(1)))
    with pytest.raises(ValueError, match="pe is required because position was set"):
        net(**given)
    with pytest.raises(ValueError, match="got pe but position is None"):
        model()(**given, pe=pe)


def test_copies_resets_and_saved_weights() -> None:
    net, given = model(), graphs()
    out = net(**given)
    assert_close(copy.deepcopy(net)(**given), out)
    other = model()
    other.load_state_dict(net.state_dict())
    assert_close(other(**given), out)
    net.reset_parameters()
    assert not torch.allclose(net(**given), out)


def test_every_parameter_is_trained() -> None:
    net = model(position=4, log_size="nodes", readout="mean+sum", conv="GatedGCN", memory_after=(0, 1, 2))
    net(**graphs(), pe=torch.rand(13, 4, dtype=torch.float64)).square().sum().backward()
    # The edges that the last layer makes are for a layer behind it; anchor values are for graphs without nodes.
    idle = {key for key, parameter in net.named_parameters() if parameter.grad is None}
    assert idle <= {"layers.2.conv.norm.weight", "layers.2.conv.norm.bias"}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"memory_after": [3]}, ValueError, "different numbers from 0 to 2"),
        ({"memory_after": [1, 1]}, ValueError, "different numbers from 0 to 2"),
        ({"memory_after": [False, True, True]}, ValueError, "different numbers from 0 to 2"),
        ({"memory_after": torch.tensor([1])}, ValueError, "different numbers from 0 to 2"),
        ({"memory_after": 2}, ValueError, "memory_after is 2 but different numbers"),
        ({"typical_size": -3.0, "readout": None, "log_size": "nodes"}, ValueError, "typical_size"),
        ({"memory": "anchored"}, TypeError, r"partial\(SlotVirtualNode"),
        ({"log_size": "all"}, ValueError, "'nodes', 'head' or None"),
        ({"log_size": "head", "readout": None}, ValueError, "needs a readout"),
        ({"readout": "max"}, ValueError, "'mean', 'sum', 'mean\\+sum', 'slots' or an aggregation"),
        ({"layers": 0}, ValueError, "layers is 0"),
    ],
)
def test_messages(options: dict[str, Any], error: type[Exception], words: str, as_users_run_it: None) -> None:
    with pytest.raises(error, match=words):
        model(**options)


def test_it_runs_as_it_is_with_and_without_edge_features() -> None:
    x, edge_index = torch.randn(4, 5), torch.tensor([[0, 1], [1, 2]])
    without, given = GNN(5, CHANNELS, 1), GNN(5, CHANNELS, 1, edge_encoder=3)
    assert "conv=GINConv" in repr(without)
    assert without(x, edge_index).shape == (1, 1)
    assert "conv=GINEConv" in repr(given)
    assert given(x, edge_index, torch.randn(2, 3)).shape == (1, 1)
    with pytest.raises(ValueError, match=r"GINEConv needs edge features .* together with edge_encoder"):
        GNN(5, CHANNELS, 1, conv="GINEConv")(x, edge_index)


def test_missing_edge_features_are_named() -> None:
    given = graphs()
    del given["edge_attr"]
    with pytest.raises(ValueError, match="edge_attr is required"):
        model()(**given)


def test_it_prints_in_a_line() -> None:
    assert repr(model(readout="sum")) == (
        "GNN(8, layers=3, conv=GINEConv, memory=SlotVirtualNode(8, slots=3, heads=2, anchored=True, "
        "init_std=0.5) after 0, 1, readout=Readout(sum))"
    )


def test_a_plan_of_one_graph_goes_where_the_nodes_are() -> None:
    model = GNN(5, 16, 1, layers=2, log_size="nodes").to("meta")
    x, edges = torch.randn(4, 5, device="meta"), torch.zeros(2, 3, dtype=torch.long, device="meta")
    assert model(x, edges, plan=ops.plan(num_nodes=4)).shape == (1, 1)
