"""Attention weights of the aggregation and the layer, and PyG's AttentionExplainer."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.explain import AttentionExplainer, Explainer
from torch_geometric.nn import GATConv, MessagePassing, SAGEConv

from mooring import ops
from mooring.nn import SlotAggregation, SlotConv, SlotVirtualNode
from support import Ragged, assert_close

from modules import CHANNELS, HEADS, SLOTS  # isort: skip

BATCH = Ragged((5, 0, 7, 1), False, seed=1)
EDGES = torch.tensor([[0, 1, 2, 4, 5, 3, 6], [1, 2, 0, 5, 6, 1, 5]])


def aggregation(**kwargs: object) -> SlotAggregation:
    return SlotAggregation(CHANNELS, SLOTS, HEADS, **kwargs).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("competition", [True, False])
@pytest.mark.parametrize("anchored", [True, False])
def test_the_weights_of_an_aggregation_are_those_it_averages_with(anchored: bool, competition: bool) -> None:
    aggr = aggregation(anchored=anchored, competition=competition)
    x, index = BATCH.randn(BATCH.num_nodes, CHANNELS), BATCH.index()
    out, inside = aggr(x, index, dim_size=4, return_state=True)
    assert_close(out, aggr(x, index, dim_size=4))
    weights = inside.write_weights
    assert weights.shape == (BATCH.num_nodes, SLOTS, HEADS)
    values = aggr.write.lin_value(x).unflatten(-1, (HEADS, -1))
    for graph in (0, 2, 3):
        nodes = index == graph
        content = torch.einsum("nmh,nhd->mhd", weights[nodes], values[nodes])
        assert_close(content, inside.state.content[graph])
    assert (inside.anchor_weight is None) is not anchored
    assert inside.slots.shape == (4, SLOTS, CHANNELS)
    assert_close(aggr.lin(inside.slots.flatten(1)), out)


def test_most_sets_empty() -> None:
    aggr, x, index = aggregation(), BATCH.randn(BATCH.num_nodes, CHANNELS), 31 * BATCH.index()
    out, inside = aggr(x, index, dim_size=101, return_state=True)
    _, dense = aggr(x, BATCH.index(), dim_size=4, return_state=True)
    assert out.shape == (101, CHANNELS)
    assert_close(inside.write_weights, dense.write_weights)
    assert_close(inside.slots[[0, 31, 62, 93]], dense.slots)
    assert_close(inside.anchor_weight[1], torch.ones(SLOTS, HEADS).double())


def test_a_layer_hands_on_the_weights_of_its_memory() -> None:
    layer = SlotConv(CHANNELS, None, SLOTS, HEADS).double()
    x, index = BATCH.randn(BATCH.num_nodes, CHANNELS), BATCH.index()
    _, inside = layer(x, EDGES, index, return_state=True)
    _, expected = layer.memory(x, index, return_state=True)
    assert_close(inside.write_weights, expected.write_weights)
    assert_close(inside.read_weights, expected.read_weights)


class LargestTensor(TorchDispatchMode):
    """Size in bytes of the largest tensor created in the block."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        tensors = [
            tensor for tensor in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(tensor, Tensor)
        ]
        self.bytes = max([self.bytes, *(tensor.untyped_storage().nbytes() for tensor in tensors)])
        return out


SIZES = {
    "even": [40] * 20,
    "small": [9, 12, 17] * 30,
    "skewed": [900, *[3] * 60],
}


@pytest.mark.parametrize("options", [{}, {"competition": True}], ids=["alone", "competing"])
@pytest.mark.parametrize("carried", [False, True], ids=["learned slots", "carried slots"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=list(SIZES))
def test_weights_are_computed_without_gathering_slots(
    sizes: list[int], carried: bool, options: dict[str, bool]
) -> None:
    """Gathering slots per node would take ``channels / heads`` times the memory of the weights."""
    module, index = (
        SlotVirtualNode(64, 8, 4, **options),
        torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
    )
    x = torch.randn(len(index), 64)
    arguments = {"memory": module(x, index, return_state="slots")[1]} if carried else {}
    with torch.no_grad(), LargestTensor() as forward:
        module(x, index, **arguments)
    with torch.no_grad(), LargestTensor() as inside:
        weights = module(x, index, **arguments, return_state=True)[1].read_weights
    assert inside.bytes <= max(forward.bytes, 2 * weights.nbytes)


def test_inside_a_convolution_a_hook_sees_the_attention_to_each_edge() -> None:
    conv = SAGEConv(CHANNELS, CHANNELS, aggr=aggregation()).double()
    seen: list[Tensor] = []

    def look(aggr: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, object], _: Tensor) -> None:
        seen.append(aggr.forward(*args, **kwargs, return_state=True)[1].write_weights)

    conv.aggr_module.register_forward_hook(look, with_kwargs=True)
    conv(BATCH.randn(7, CHANNELS), EDGES)
    (weights,) = seen
    total = torch.zeros(7, SLOTS, HEADS).double().index_add(0, EDGES[1], weights)
    heard = torch.bincount(EDGES[1], minlength=7) > 0
    assert_close(total[heard], torch.ones_like(total[heard]))


class Net(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index)


def explain(layer: nn.Module) -> Tensor:
    explainer = Explainer(
        Net(layer.double()),
        algorithm=AttentionExplainer(),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )
    return explainer(BATCH.randn(7, CHANNELS), EDGES).edge_mask


def test_pygs_explainer_finds_the_attention_of_the_local_layer() -> None:
    gat = GATConv(CHANNELS, CHANNELS, add_self_loops=False)
    mask = explain(SlotConv(CHANNELS, gat, SLOTS, HEADS))
    _, (_, alpha) = gat(BATCH.randn(7, CHANNELS), EDGES, return_attention_weights=True)
    assert_close(mask, alpha.detach().squeeze(1))


class ReadsSlots(MessagePassing):
    """Memory inside a MessagePassing, where the explainer looks for attention."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.memory(x))


@pytest.mark.parametrize("layer", [lambda: SAGEConv(CHANNELS, CHANNELS, aggr=aggregation()), ReadsSlots])
def test_pygs_explainer_cannot_find_the_attention_of_slots(layer: type[nn.Module]) -> None:
    """It hooks message and aggregation and expects a number per edge; slots attend later, or to nodes."""
    with pytest.raises(ValueError, match="Could not collect any attention coefficients"):
        explain(layer())


@pytest.mark.parametrize("index", [None, torch.tensor([0, 1, 1, 0, 1, 1, 0])], ids=["one graph", "two graphs"])
def test_write_weights_leave_room_for_the_nodes_of_other_processes(index: torch.Tensor | None) -> None:
    """With ``merge=ops.all_merge`` the memory contains the nodes of other processes too."""
    torch.manual_seed(0)
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS).double()
    x, graphs = torch.randn(7, CHANNELS, dtype=torch.float64), 1 if index is None else 2
    elsewhere = module.write(torch.randn(2 * graphs, CHANNELS, dtype=torch.float64), torch.arange(2 * graphs) % graphs)
    module.merge = lambda state: ops.merge(state, elsewhere)
    memory = module(x, index, return_state=True)[1]
    here = module.write(x, index).log_mass - memory.state.log_mass
    ids = torch.zeros(7, dtype=torch.long) if index is None else index
    assert_close(torch.zeros_like(here).index_add(0, ids, memory.write_weights), here.exp())


def test_weights_under_autocast_are_those_that_were_used() -> None:
    """Scores in bfloat16 would be off by a percent, and their exponentials would not sum to one."""
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, temperature=0.1).eval()
    x, index = BATCH.randn(BATCH.num_nodes, CHANNELS).float(), BATCH.index()
    query, key = (3 * torch.randn(SLOTS, HEADS, 4)).bfloat16(), (3 * torch.randn(BATCH.num_nodes, HEADS, 4)).bfloat16()
    state = ops.write(query, key, key, index, num_graphs=4)
    shares = ops.write_weights(state, query, key, index, alone=False)
    assert shares.dtype == torch.float32
    summed = torch.zeros(4, SLOTS, HEADS).index_add(0, index, shares)
    assert_close(summed[index], torch.ones_like(shares))
    with torch.autocast("cpu", torch.bfloat16):
        _, inside = memory(x, index, num_graphs=4, return_state=True)
    assert inside.read_weights.dtype == torch.float32
    assert_close(inside.read_weights.sum(dim=1), torch.ones(BATCH.num_nodes, HEADS))
