"""What is recorded is what the modules did, and the model does not notice; the numbers of known weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from look.drawable import CHANNELS, HEADS, SLOTS, Net, ring
from mooring import zoo
from mooring.look import measure, measure_model, record
from mooring.look.record import memories
from mooring.nn import (
    HeteroSlotVirtualNode,
    MemorySpec,
    SlotAggregation,
    SlotConv,
    SlotMemory,
    SlotVirtualNode,
    VirtualNode,
)
from mooring.ops import SlotState
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


def memory(write: Tensor | None, read: Tensor | None, **others: Tensor) -> SlotMemory:
    masses = others.pop("masses", torch.zeros(1, SLOTS, HEADS))
    state = SlotState(torch.zeros(1, SLOTS, HEADS, 3), masses)
    return SlotMemory(state, torch.zeros(1, SLOTS, 6), write_weights=write, read_weights=read, **others)


def uniform() -> Tensor:
    return torch.full((7, SLOTS, HEADS), 1 / SLOTS)


def single() -> Tensor:
    """Node i and slot i mod SLOTS, and nothing else."""
    weights = torch.eye(SLOTS)[torch.arange(7) % SLOTS]
    return weights.unsqueeze(-1).expand(-1, -1, HEADS)


@pytest.mark.parametrize(("weights", "slots"), [(uniform(), SLOTS), (single(), 1)])
def test_the_number_of_slots_in_use(weights: Tensor, slots: int) -> None:
    numbers = measure(memory(weights, weights))
    for past, verb in (("written", "write"), ("read", "read")):
        assert numbers[f"slots_{past}"] == pytest.approx(slots, rel=1e-6)
        assert numbers[f"{verb}_entropy"] == pytest.approx(math.log(slots), abs=1e-6)


def test_nodes_that_do_not_read_do_not_count() -> None:
    read = torch.cat([single(), torch.zeros(9, SLOTS, HEADS)])
    assert measure(memory(None, read))["slots_read"] == pytest.approx(1)
    assert "slots_read" not in measure(memory(None, torch.zeros(9, SLOTS, HEADS)))


def test_masses_of_slots_that_nothing_was_written_to_are_left_out() -> None:
    masses = torch.tensor([[2.0, -1.0], [0.5, 0.5], [0.0, 3.0], [-1.0, 1.0], [-math.inf, -math.inf]]).unsqueeze(0)
    numbers = measure(memory(None, None, masses=masses, anchor_weight=torch.full((1, SLOTS, HEADS), 0.25)))
    assert numbers == {"anchor_share": 0.25, "log_mass_min": -1.0, "log_mass_max": 3.0}
    assert measure(memory(None, None, masses=torch.full((1, SLOTS, HEADS), -math.inf))) == {}


def test_slots_that_are_alike_are_written_and_read_as_one_virtual_node() -> None:
    module = SlotVirtualNode(8, SLOTS, HEADS, routing="free").eval()
    torch.nn.init.zeros_(module.write.lin_key.weight)
    alike = measure(module(torch.randn(7, 8), return_state=True)[1])
    assert alike["slots_written"] == pytest.approx(SLOTS, rel=1e-5)
    sharp = SlotVirtualNode(8, SLOTS, HEADS, temperature=1e-3).eval()
    assert measure(sharp(torch.randn(7, 8), return_state=True)[1])["slots_read"] < 1.1


def test_a_readout_has_writes_and_no_reads() -> None:
    _, found = SlotAggregation(8, SLOTS, HEADS)(torch.randn(7, 8), return_state=True)
    assert {"slots_written", "anchor_share"} <= measure(found).keys()
    assert "slots_read" not in measure(found)


def test_every_memory_of_a_model_by_its_place() -> None:
    net, graph = Net(), ring(11)
    numbers = measure_model(net, lambda: net(graph.x, graph.edge_index))
    assert {name.split("/")[0] for name in numbers} == {"memories.0", "memories.1", "memories.2"}
    twice = measure_model(net, lambda: [net(graph.x, graph.edge_index) for _ in range(2)])
    assert twice == pytest.approx(numbers)
    assert net.training


def test_another_thing_is_refused() -> None:
    with pytest.raises(TypeError, match=r"measure: memory is .* but a SlotMemory was expected"):
        measure(torch.zeros(3))  # type: ignore[arg-type]
