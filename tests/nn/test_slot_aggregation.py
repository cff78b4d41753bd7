"""SlotAggregation as a PyG aggregation: PyG's tests of aggregations, and ours."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch_geometric import nn as convs
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.nn.resolver import aggregation_resolver

from mooring import ops
from mooring.nn import SlotAggregation
from support import Ragged, assert_close, assert_finite, ragged

from modules import CHANNELS, HEADS, SLOTS  # isort: skip

OUT = 13


def aggregation(**kwargs: object) -> SlotAggregation:
    torch.manual_seed(0)
    return SlotAggregation(CHANNELS, SLOTS, HEADS, **kwargs).double()  # type: ignore[arg-type]


@given(ragged(3))
def test_each_set_is_aggregated_on_its_own_in_any_order(batch: Ragged) -> None:
    aggr, x, index = aggregation(), batch.randn(batch.num_nodes, CHANNELS), batch.index()
    out = aggr(x, index, dim_size=batch.num_graphs)
    assert out.shape == (batch.num_graphs, CHANNELS)
    for group in range(batch.num_graphs):
        assert_close(out[group : group + 1], aggr(x[index == group], dim_size=1))


@given(ragged(3))
def test_ptr_equals_index(batch: Ragged) -> None:
    aggr, x = aggregation(), batch.randn(batch.num_nodes, CHANNELS)
    sizes = torch.tensor(batch.sizes)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    index = torch.arange(batch.num_graphs).repeat_interleave(sizes)
    expected = aggr(x, index, dim_size=batch.num_graphs)
    assert_close(aggr(x, ptr=ptr), expected)
    assert_close(aggr(x, index, ptr=ptr), expected)


def test_a_plan_in_place_of_the_index() -> None:
    aggr, batch = aggregation(), Ragged((5, 0, 7, 1), False, seed=1)
    x, plan = batch.randn(batch.num_nodes, CHANNELS), ops.plan(batch.index(), num_graphs=4)
    assert_close(aggr(x, plan), aggr(x, batch.index(), dim_size=4))
    assert torch.equal(aggr(x, plan=plan), aggr(x, plan))
    assert torch.equal(aggr.forward(x, plan=plan), aggr(x, plan))
    with pytest.raises(ValueError, match="the plan was made for 4"):
        aggr(x, plan, dim_size=3)
    with pytest.raises(ValueError, match="got plan and index"):
        aggr(x, batch.index(), plan=plan)
    with pytest.raises(TypeError, match=r"plan is a torch.Tensor but a Plan was expected. Make it by"):
        aggr(x, plan=batch.index())


def test_without_index_or_ptr_everything_is_one_set() -> None:
    aggr, x = aggregation(), torch.randn(7, CHANNELS).double()
    assert_close(aggr(x), aggr(x, torch.zeros(7, dtype=torch.long)))
    assert aggr(x).shape == (1, CHANNELS)
    assert_close(aggr.forward(x, dim_size=3)[:1], aggr(x))


def test_dim_size_adds_empty_sets_which_are_finite_and_equal() -> None:
    aggr = aggregation()
    x = torch.randn(5, CHANNELS).double().requires_grad_()
    out = aggr(x, torch.tensor([0, 0, 3, 3, 3]), dim_size=7)
    assert out.shape == (7, CHANNELS)
    for group in (2, 4, 5, 6):
        assert torch.equal(out[group], out[1])
    out.sum().backward()
    assert_finite(out, x.grad, *(parameter.grad for parameter in aggr.parameters()))


def test_no_elements() -> None:
    nobody = torch.zeros(0, CHANNELS).double()
    index = torch.zeros(0, dtype=torch.long)
    assert aggregation()(nobody, index, dim_size=3).shape == (3, CHANNELS)
    assert aggregation()(nobody, index).shape == (0, CHANNELS)


def test_it_counts_with_anchors_and_depends_on_proportions_without() -> None:
    x = torch.randn(5, CHANNELS).double()
    for anchored in (True, False):
        aggr = aggregation(anchored=anchored)
        same = torch.allclose(aggr(x.repeat(2, 1)), aggr(x))
        assert same is not anchored


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("temperature", 0.5, lambda aggr: aggr.write.temperature),
        ("competition", True, lambda aggr: aggr.write.null_logit is not None),
        ("anchored", False, lambda aggr: aggr.update.anchored),
        ("mass", "log_odds", lambda aggr: aggr.update.mass),
        ("anchor_init", 2.5, lambda aggr: aggr.update.anchor_logit.unique().item()),
        ("mass_map", "linear", lambda aggr: "linear" if isinstance(aggr.update.mass_mlp, torch.nn.Linear) else "mlp"),
        ("content_dropout", 0.25, lambda aggr: aggr.update.content_dropout),
        ("out_channels", OUT, lambda aggr: aggr.lin.out_features),
    ],
)
def test_every_option_reaches_its_part(name: str, value: object, seen: Callable[[SlotAggregation], object]) -> None:
    assert seen(aggregation()) != value
    assert seen(aggregation(**{name: value})) == value


class Neighbours(MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)


def graph() -> tuple[Tensor, Tensor]:
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 1, 1, 2, 2, 4]])
    return torch.randn(7, CHANNELS).double(), edge_index


def test_inside_message_passing() -> None:
    x, edge_index = graph()
    conv = Neighbours(aggr=aggregation(out_channels=OUT))
    out = conv(x, edge_index)
    assert out.shape == (7, OUT)
    for node in range(7):
        heard = x[edge_index[0, edge_index[1] == node]]
        assert_close(out[node], conv.aggr_module(heard, dim_size=1)[0])
    shuffled = edge_index[:, torch.randperm(7)]
    assert_close(conv(x, shuffled), out)


@given(ragged(3))
def test_further_axes_are_aggregated_each_on_their_own(batch: Ragged) -> None:
    aggr, x, index = aggregation(out_channels=OUT), batch.randn(batch.num_nodes, 2, 3, CHANNELS), batch.index()
    out, memory = aggr(x, index, dim_size=batch.num_graphs, dim=0, return_state=True)
    assert out.shape == (batch.num_graphs, 2, 3, OUT)
    assert out.is_contiguous()
    assert memory.slots.size(0) == 6 * batch.num_graphs
    for i, j in ((0, 0), (0, 2), (1, 1)):
        alone, inside = aggr(x[:, i, j], index, dim_size=batch.num_graphs, return_state=True)
        assert_close(out[:, i, j], alone)
        assert_close(memory.slots.view(2, 3, batch.num_graphs, *memory.slots.shape[1:])[i, j], inside.slots)
        assert_close(memory.write_weights.view(2, 3, -1, SLOTS, HEADS)[i, j], inside.write_weights)
    assert_close(aggr(x.movedim(0, 1), index, dim_size=batch.num_graphs, dim=-3), out.movedim(0, 1))
    assert_close(aggr(x.movedim(0, -2), ops.plan(index, num_graphs=batch.num_graphs)), out.movedim(0, -2))


def test_its_width_may_wait_for_messages_with_heads() -> None:
    torch.manual_seed(1)
    lazy, x = SlotAggregation(-1, SLOTS, HEADS), torch.randn(5, 3, CHANNELS)
    index = torch.tensor([0, 2, 2, 0, 1])
    out = lazy(x, index, dim=0)
    assert_close(out[:, 1], lazy(x[:, 1], index))
    assert lazy.channels == CHANNELS


WITH_HEADS: dict[str, Callable[[SlotAggregation], MessagePassing]] = {
    "GATConv": lambda aggr: convs.GATConv(CHANNELS, CHANNELS, heads=3, aggr=aggr),
    "GATv2Conv": lambda aggr: convs.GATv2Conv(CHANNELS, CHANNELS, heads=3, aggr=aggr),
    "TransformerConv": lambda aggr: convs.TransformerConv(CHANNELS, CHANNELS, heads=3, aggr=aggr),
    "SuperGATConv": lambda aggr: convs.SuperGATConv(CHANNELS, CHANNELS, heads=3, aggr=aggr),
    "GeneralConv": lambda aggr: convs.GeneralConv(CHANNELS, CHANNELS, heads=3, aggr=aggr),
    "ARMAConv": lambda aggr: convs.ARMAConv(CHANNELS, CHANNELS, num_stacks=3, aggr=aggr),
}


@pytest.mark.parametrize("name", sorted(WITH_HEADS))
def test_inside_layers_whose_messages_have_heads(name: str) -> None:
    x, edge_index = graph()
    aggr = aggregation()
    conv, seen = WITH_HEADS[name](aggr).double().eval(), []
    handle = aggr.register_forward_pre_hook(lambda _, args, kwargs: seen.append((*args, kwargs)), with_kwargs=True)
    result = []
    other = aggr.register_forward_hook(lambda _, args, out: result.append(out))
    assert_finite(conv(x, edge_index))
    handle.remove()
    other.remove()
    (messages, *rest, more), (out,) = seen[0], result
    index = more.get("index", rest[0] if rest else None)
    assert messages.dim() == 3
    heads = 0 if name == "ARMAConv" else 1
    for head in range(3):
        assert_close(out.select(heads, head), aggr(messages.select(heads, head), index, dim_size=7))


@pytest.mark.parametrize(("mode", "width"), [("cat", 2 * CHANNELS), ("sum", CHANNELS), ("attn", CHANNELS)])
def test_inside_a_multi_aggregation(mode: str, width: int) -> None:
    x, edge_index = graph()
    kwargs = {"in_channels": CHANNELS, "out_channels": CHANNELS, "num_heads": 1} if mode == "attn" else {}
    multi = MultiAggregation([aggregation(), "mean"], mode=mode, mode_kwargs=kwargs).double()
    out = Neighbours(aggr=multi)(x, edge_index)
    assert out.shape == (7, width)
    if mode == "cat":
        assert_close(out[:, :CHANNELS], Neighbours(aggr=aggregation())(x, edge_index))
    assert Neighbours(aggr=[aggregation(), "mean"])(x, edge_index).shape == (7, 2 * CHANNELS)


def test_as_a_readout_of_a_batch() -> None:
    graphs = [Data(x=torch.randn(size, CHANNELS).double()) for size in (5, 1, 7)]
    batch = Batch.from_data_list(graphs)
    out = aggregation()(batch.x, batch.batch, dim_size=batch.num_graphs)
    assert_close(out, torch.cat([aggregation()(graph.x) for graph in graphs]))
    assert_close(out, aggregation()(batch.x, ptr=batch.ptr))


def test_pygs_resolver_takes_the_module_and_refuses_a_name_it_does_not_know() -> None:
    aggr = aggregation()
    assert aggregation_resolver(aggr) is aggr
    with pytest.raises(ValueError, match="Could not resolve 'slots'"):
        aggregation_resolver("slots")


def test_pygs_errors_come_through() -> None:
    x, index = torch.randn(5, CHANNELS).double(), torch.tensor([0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="invalid dimension '3'"):
        aggregation()(x, index, dim=3)
    with pytest.raises(ValueError, match=r"x has shape \[5, 10\] and dim=-1 but .*channels last were expected"):
        aggregation()(x, torch.arange(CHANNELS), dim=-1)
    with pytest.raises(ValueError, match="invalid 'dim_size'"):
        aggregation()(x, ptr=torch.tensor([0, 2, 5]), dim_size=3)


MESSAGES = [
    (
        {"x": torch.zeros(5, 7)},
        ValueError,
        "SlotAggregation: x has width 7 but channels=10. Build it with channels=7 or project x first.",
    ),
    (
        {"x": torch.zeros(5, CHANNELS, dtype=torch.long)},
        TypeError,
        "SlotAggregation: x has dtype int64 but a floating one was expected. Pass x.float().",
    ),
    (
        {"dim_size": 1},
        ValueError,
        "SlotAggregation: invalid 'dim_size': index has ids from 0 to 1 but dim_size=1. Number the graphs from 0, or "
        "raise dim_size to 2.",
    ),
    (
        {"index": torch.zeros(5)},
        TypeError,
        "SlotAggregation: index has dtype float32 but graph ids are int64 or int32. Pass index.long().",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "message"), MESSAGES, ids=[case[2][17:50] for case in MESSAGES])
def test_message(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    right = {"x": torch.zeros(5, CHANNELS), "index": torch.tensor([0, 0, 1, 1, 1])}
    with pytest.raises(error) as caught:
        aggregation().float()(**{**right, **wrong})
    assert str(caught.value) == message


def test_without_an_index_all_elements_are_in_the_first_set() -> None:
    module, x = aggregation(), torch.randn(5, CHANNELS).double()
    whole = module(x)
    for sets in (1, 2, 3):
        out = module(x, dim_size=sets)
        assert out.shape == (sets, whole.size(1))
        assert_close(out[:1], whole)


def test_a_wrapped_last_map_is_called() -> None:
    module = SlotAggregation(CHANNELS, SLOTS, heads=HEADS)
    x, index = torch.randn(5, CHANNELS), torch.tensor([0, 0, 1, 1, 1])
    expected = module(x, index)
    module.lin = nn.Sequential(module.lin)
    assert_close(module(x, index), expected)
