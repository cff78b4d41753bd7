"""What is recorded is what the modules did, and the model does not notice."""

from __future__ import annotations

import pytest
import torch
from drawable import CHANNELS, HEADS, SLOTS, Net, ring
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from mooring import zoo
from mooring.look import record
from mooring.look.record import memories
from mooring.nn import HeteroSlotVirtualNode, MemorySpec, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from mooring.zoo.budget import WithNodeMLP
from support import assert_close

X, BATCH = torch.randn(13, CHANNELS), torch.tensor([0] * 6 + [1] * 7)


def test_every_memory_of_a_model_is_recorded_in_its_order() -> None:
    net, graph = Net(), ring(11)
    calls = record(net, lambda: net(graph.x, graph.edge_index))
    assert [call.name for call in calls] == ["memories.0", "memories.1", "memories.2"]
    expected = net.eval().memories[0](graph.x + net.convs[0](graph.x, graph.edge_index).tanh(), return_state=True)[1]
    for name in ("slots", "anchor_weight", "write_weights", "read_weights"):
        assert_close(getattr(calls[0].memory, name), getattr(expected, name))


def test_the_model_returns_what_it_always_does_and_keeps_its_modes_and_hooks() -> None:
    net, graph = Net(), ring(11)
    net.convs[0].eval()
    found: list[Tensor] = []
    record(net, lambda: found.append(net(graph.x, graph.edge_index)))
    assert net.training
    assert not net.convs[0].training
    assert not found[0].requires_grad
    assert_close(found[0], net.eval()(graph.x, graph.edge_index))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_an_error_leaves_no_hooks_behind() -> None:
    net = Net()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        record(net, lambda: net(torch.randn(3, CHANNELS + 1), torch.empty(2, 0, dtype=torch.long)))
    assert net.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_a_caller_that_asks_for_the_state_still_gets_it() -> None:
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    found: list[tuple[Tensor, object]] = []
    (call,) = record(memory, lambda: found.append(memory(X, BATCH, return_state=True)))
    assert found[0][1] is call.memory


@pytest.mark.parametrize("name", [name for name in zoo.names() if name != "none"])
def test_every_rival_runs_and_those_with_a_memory_are_recorded(name: str) -> None:
    module = zoo.build(name, MemorySpec(channels=CHANNELS, slots=SLOTS, heads=HEADS))
    assert module is not None
    out = module.eval()(X, BATCH)
    found: list[Tensor] = []
    calls = record(module, lambda: found.append(module(X, BATCH)))
    assert_close(found[0], out.detach())
    assert len(calls) <= 1
    for call in calls:
        assert call.memory.slots.size(0) == 2


def test_wrappers_are_passed_through_to_the_memory_inside() -> None:
    layer = SlotConv(CHANNELS, GINConv(nn.Linear(CHANNELS, CHANNELS)), slots=SLOTS, heads=HEADS)
    assert [name for name, _ in memories(layer)] == ["memory"]
    bare = SlotConv(CHANNELS, None, memory=nn.Bilinear(CHANNELS, CHANNELS, CHANNELS))
    assert memories(bare) == []
    wrapped = WithNodeMLP(VirtualNode(CHANNELS), CHANNELS, 7)
    (call,) = record(wrapped, lambda: wrapped(X, BATCH))
    assert call.name == "module"


def test_an_aggregation_is_recorded_with_the_weights_of_its_write() -> None:
    readout = SlotAggregation(CHANNELS, SLOTS, HEADS)
    (call,) = record(readout, lambda: readout(X, BATCH, dim_size=3))
    assert call.memory.slots.shape == (3, SLOTS, CHANNELS)
    assert call.memory.write_weights is not None
    assert call.memory.anchor_weight is not None
    total = torch.zeros(3, SLOTS, HEADS).index_add(0, BATCH, call.memory.write_weights)
    assert_close(total[:2], torch.ones(2, SLOTS, HEADS))
    assert_close(readout.lin(call.memory.slots.flatten(1)), readout(X, BATCH, dim_size=3))


@pytest.mark.parametrize("competition", [False, True])
def test_an_aggregation_is_recorded_as_it_describes_itself(competition: bool) -> None:
    readout = SlotAggregation(CHANNELS, SLOTS, HEADS, competition=competition)
    _, expected = readout(X, BATCH, return_state=True)
    found: list[Tensor] = []
    (call,) = record(readout, lambda: found.append(readout(X, BATCH)))
    for name in ("slots", "anchor_weight", "write_weights"):
        assert_close(getattr(call.memory, name), getattr(expected, name).detach())
    assert_close(found[0], readout(X, BATCH).detach())


def test_node_types_stand_one_after_the_other() -> None:
    memory = HeteroSlotVirtualNode({"user": CHANNELS, "item": 8}, SLOTS, HEADS)
    (call,) = record(memory, lambda: memory({"user": X, "item": torch.randn(3, 8)}))
    assert call.memory.write_weights is not None
    assert call.memory.write_weights.shape == (16, SLOTS, HEADS)
    assert_close(call.memory.write_weights.sum(0), torch.ones(SLOTS, HEADS))
