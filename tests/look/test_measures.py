"""The numbers of a memory, on weights whose numbers are known."""

from __future__ import annotations

import math

import pytest
import torch
from drawable import Net, ring
from torch import Tensor

from mooring.look import measure, measure_model
from mooring.nn import SlotAggregation, SlotMemory, SlotVirtualNode
from mooring.ops import SlotState

NODES, SLOTS, HEADS = 6, 4, 2


def memory(write: Tensor | None, read: Tensor | None, **others: Tensor) -> SlotMemory:
    masses = others.pop("masses", torch.zeros(1, SLOTS, HEADS))
    state = SlotState(torch.zeros(1, SLOTS, HEADS, 3), masses)
    return SlotMemory(state, torch.zeros(1, SLOTS, 6), write_weights=write, read_weights=read, **others)


def uniform() -> Tensor:
    return torch.full((NODES, SLOTS, HEADS), 1 / SLOTS)


def single() -> Tensor:
    """Node i and slot i mod SLOTS, and nothing else."""
    weights = torch.eye(SLOTS)[torch.arange(NODES) % SLOTS]
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
    masses = torch.tensor([[2.0, -1.0], [0.5, 0.5], [0.0, 3.0], [-math.inf, -math.inf]]).unsqueeze(0)
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
