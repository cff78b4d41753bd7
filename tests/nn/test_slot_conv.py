"""SlotConv: a local layer and a memory, called like GPSConv."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, HeteroConv, SAGEConv, to_hetero

from mooring import ops
from mooring.nn import SlotConv, SlotVirtualNode, VirtualNode
from support import assert_close, assert_finite

from modules import CHANNELS, HEADS, SLOTS  # isort: skip

EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])


def layer(conv: nn.Module | None, **kwargs: object) -> SlotConv:
    torch.manual_seed(0)
    return SlotConv(CHANNELS, conv, SLOTS, HEADS, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "conv",
    [GCNConv(CHANNELS, CHANNELS), GATConv(CHANNELS, CHANNELS), GINConv(nn.Linear(CHANNELS, CHANNELS)), None],
    ids=lambda conv: type(conv).__name__,
)
def test_any_local_layer(conv: nn.Module | None) -> None:
    module = layer(conv, init_std=0.5)
    x = torch.randn(7, CHANNELS, requires_grad=True)
    out = module(x, EDGES, BATCH)
    assert out.shape == x.shape
    out[:, 0].sum().backward()
    assert_finite(x.grad, *(parameter.grad for parameter in module.parameters() if parameter.requires_grad))


def test_a_far_node_has_influence_in_one_layer_and_another_graph_has_not() -> None:
    module = layer(GCNConv(CHANNELS, CHANNELS), init_std=0.5)
    x = torch.randn(7, CHANNELS)
    x.requires_grad_()
    # Not a plain sum: over a normalised row it is constant.
    module(x, EDGES, BATCH)[0, 0].backward()
    assert x.grad is not None
    assert bool(x.grad[3].any()), "node 3 has no edges but shares the graph"
    assert not bool(x.grad[4:].any())


def test_output_does_not_depend_on_batch_mates_even_while_training() -> None:
    module = layer(GCNConv(CHANNELS, CHANNELS), init_std=0.5).train()
    x = torch.randn(7, CHANNELS)
    alone = module(x[:4], EDGES[:, :3])
    assert_close(module(x, EDGES, BATCH)[:4], alone)


@pytest.mark.parametrize("norm", ["layer_norm", "graph_norm", "instance_norm", "pair_norm", "LayerNorm", None])
def test_norms_see_one_graph_at_a_time(norm: str | None) -> None:
    module = layer(GCNConv(CHANNELS, CHANNELS), init_std=0.5, norm=norm).train()
    x = torch.randn(7, CHANNELS)
    alone = module(x[:4], EDGES[:, :3])
    assert_close(module(x, EDGES, BATCH)[:4], alone)
    assert_close(module(x, EDGES, ptr=torch.tensor([0, 4, 7]))[:4], alone)
    assert_close(module(x, EDGES, plan=ops.plan(BATCH))[:4], alone)
    out, _ = module(x, EDGES, BATCH, return_state=True)
    assert_close(out[:4], alone)


@pytest.mark.parametrize("name", ["batch", "ptr", "plan", "num_graphs", "memory", "return_state"])
def test_what_the_layer_needs_itself_is_not_for_the_memory_alone(name: str) -> None:
    with pytest.raises(ValueError, match=f"memory_kwargs has '{name}'. Pass {name} to the layer"):
        layer(None)(torch.randn(7, CHANNELS), EDGES, memory_kwargs={name: True})


@pytest.mark.parametrize("norm", ["message_norm", "no_such_norm"])
def test_a_norm_of_something_else_than_nodes_is_refused(norm: str) -> None:
    with pytest.raises(ValueError, match=f"norm is '{norm}' but None or the name of a normalisation of nodes"):
        layer(None, norm=norm)


def test_batch_norm_sees_them_all() -> None:
    module = layer(GCNConv(CHANNELS, CHANNELS), init_std=0.5, norm="batch_norm").train()
    x = torch.randn(7, CHANNELS)
    assert not torch.allclose(module(x, EDGES, BATCH)[:4], module(x[:4], EDGES[:, :3]))


def test_the_last_graphs_may_be_empty() -> None:
    module, x = layer(GCNConv(CHANNELS, CHANNELS)), torch.randn(7, CHANNELS)
    out, inside = module(x, EDGES, BATCH, num_graphs=5, return_state="slots")
    assert inside.slots.size(0) == 5
    assert inside.write_weights is None
    assert_close(out, module(x, EDGES, BATCH))


def test_arguments_reach_the_layer_and_the_memory() -> None:
    module = layer(GINEConv(nn.Linear(CHANNELS, CHANNELS), edge_dim=5), init_std=0.5)
    x, edge_attr = torch.randn(7, CHANNELS), torch.randn(5, 5)
    out = module(x, EDGES, BATCH, edge_attr=edge_attr)
    masked = module(x, EDGES, BATCH, edge_attr=edge_attr, memory_kwargs={"sources": BATCH == 1})
    assert not torch.allclose(masked[:4], out[:4])
    assert_close(masked[4:], out[4:])


def test_a_custom_memory() -> None:
    memory = VirtualNode(CHANNELS, pool="sum")
    module = SlotConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), memory=memory)
    assert module.memory is memory
    x = torch.randn(7, CHANNELS)
    assert module(x, EDGES, BATCH).shape == x.shape


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("options", [{"slots": 3}, {"heads": 2}, {"anchored": False}, {"slots": 3, "temperature": 0.5}])
def test_a_custom_memory_excludes_build_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="SlotConv: got a memory and") as caught:
        SlotConv(CHANNELS, None, memory=VirtualNode(CHANNELS), **options)
    for name, option in options.items():
        assert f"{name}={option}" in str(caught.value)


def test_slots_are_those_of_the_virtual_node_by_default() -> None:
    assert SlotConv(12, None).memory.slots == SlotVirtualNode(12).slots == 8
    assert SlotConv(12, None, 5).memory.slots == 5


def test_heads_are_four_by_default() -> None:
    assert SlotConv(12, None, SLOTS).memory.heads == 4
    assert SlotConv(12, None, SLOTS, 3).memory.heads == 3


def test_a_memory_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="memory has channels=12 but channels=10"):
        SlotConv(CHANNELS, None, memory=VirtualNode(12))


def test_reset_reaches_layers_inside_a_container() -> None:
    class Chain(nn.Sequential):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x)

    module = layer(Chain(nn.Linear(CHANNELS, CHANNELS)))
    before = [parameter.detach().clone() for parameter in module.conv.parameters()]
    module.reset_parameters()
    assert not torch.equal(before[0], next(module.conv.parameters()))


def test_weights_per_slot_and_head_reach_the_memory() -> None:
    x, weight = torch.randn(7, CHANNELS), torch.randn(7, SLOTS, HEADS)
    module = layer(None)
    module.norm_out, module.mlp = nn.Identity(), nn.Identity()
    out = module(x, EDGES, BATCH, memory_kwargs={"log_weight": weight})
    assert_close(out, 2 * module.memory(x, BATCH, log_weight=weight))


def test_arguments_for_a_local_layer_that_is_not_there() -> None:
    with pytest.raises(TypeError, match="got edge_attr for the local layer, but there is none"):
        layer(None)(torch.randn(7, CHANNELS), EDGES, BATCH, edge_attr=torch.randn(5, 3))


@pytest.mark.parametrize("norm", ["pair_norm", "graph_size_norm", "mean_subtraction_norm"])
def test_norms_without_a_width_are_built_as_they_are(norm: str) -> None:
    module = SlotConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), slots=SLOTS, heads=HEADS, norm=norm)
    built = [child for child in module.modules() if type(child).__module__.startswith("torch_geometric.nn.norm")]
    assert built
    assert all(getattr(child, "scale", 1.0) == 1.0 for child in built)
    assert_finite(module(torch.randn(6, CHANNELS), torch.randint(0, 6, (2, 9)), torch.tensor([0, 0, 0, 1, 1, 1])))


class Net(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


TYPES = [("a", "to", "b"), ("b", "to", "a")]
OF_TYPES = {"a": torch.randn(7, CHANNELS), "b": torch.randn(5, CHANNELS)}


@pytest.mark.parametrize("local", [None, SAGEConv((CHANNELS, CHANNELS), CHANNELS)], ids=["memory alone", "SAGEConv"])
def test_to_hetero_is_refused_and_hetero_conv_is_not(local: nn.Module | None) -> None:
    """PyG would run it once per edge type, and no result would belong to a node type."""
    with pytest.raises(TypeError, match=r"^SlotConv: to_hetero would give one result per edge type.* Use HeteroConv"):
        to_hetero(Net(layer(local)), (["a", "b"], TYPES))
    edges = {kind: torch.tensor([[0, 1], [1, 2]]) for kind in TYPES}
    out = HeteroConv({kind: layer(local) for kind in TYPES})(OF_TYPES, edges)
    assert {name: x.shape for name, x in out.items()} == {name: x.shape for name, x in OF_TYPES.items()}


def test_a_tracer_that_keeps_it_whole_may_keep_it() -> None:
    class Whole(torch.fx.Tracer):
        def is_leaf_module(self, module: nn.Module, name: str) -> bool:
            return True

    net = Net(layer(GCNConv(CHANNELS, CHANNELS)))
    traced = torch.fx.GraphModule(net, Whole().trace(net))
    x = torch.randn(7, CHANNELS)
    assert torch.equal(traced(x, EDGES), net(x, EDGES))
