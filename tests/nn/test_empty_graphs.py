"""Cost of graphs without nodes."""

import time

import pytest
import torch

from mooring import ops
from mooring.nn import SlotAggregation, SlotVirtualNode


def seconds(memory: SlotVirtualNode, x: torch.Tensor, batch: torch.Tensor) -> float:
    """Return the CPU time of the fastest of several forward and backward passes."""
    times = []
    for _ in range(6):
        start = time.process_time()
        memory(x, batch).sum().backward()
        times.append(time.process_time() - start)
    return min(times[1:])


@pytest.mark.parametrize("gap", [10**5, 10**6])
def test_a_gap_in_the_graph_ids_takes_at_most_three_times_as_long(gap: int) -> None:
    memory, x = SlotVirtualNode(64, slots=8), torch.randn(305, 64)
    batch = torch.tensor([0] * 300 + [1] * 5)
    assert seconds(memory, x, batch * gap) < 3 * seconds(memory, x, batch)


def test_a_gap_changes_no_number() -> None:
    memory, x = SlotVirtualNode(64, slots=8), torch.randn(305, 64)
    batch = torch.tensor([0] * 300 + [1] * 5)
    torch.testing.assert_close(memory(x, batch * 10**5), memory(x, batch))


@pytest.mark.parametrize("gaps", [False, True], ids=["empty graphs at the end", "empty graphs in between"])
@pytest.mark.parametrize("num_graphs", [108, 120, 500, 2000, 2001, 2002])
def test_no_slots_are_updated_for_many_empty_graphs(num_graphs: int, gaps: bool) -> None:
    """The update receives the 100 graphs with nodes and one empty graph."""
    memory, aggr, x = SlotVirtualNode(8, slots=3), SlotAggregation(8, slots=3), torch.randn(2000, 8)
    step = (num_graphs - 1) // 99 if gaps else 1
    batch = torch.arange(100).repeat_interleave(20) * step
    updated = []
    for module in (memory, aggr):
        module.update.register_forward_pre_hook(lambda _, args: updated.append(args[0].log_mass.size(0)))
    out, inside = memory(x, batch, num_graphs=num_graphs, return_state=True)
    pooled = aggr(x, batch, dim_size=num_graphs)
    assert updated == [101, 101]
    dense, dense_inside = memory(x, batch // step, return_state=True)
    torch.testing.assert_close(out, dense)
    torch.testing.assert_close(inside.slots[::step][:100], dense_inside.slots)
    torch.testing.assert_close(pooled[::step][:100], aggr(x, batch // step))


@pytest.mark.parametrize(("graphs", "empty"), [(100, 0), (100, 7), (1000, 30)])
def test_a_few_empty_graphs_are_cheaper_than_leaving_them_out(graphs: int, empty: int) -> None:
    batch = torch.arange(graphs).repeat_interleave(20)
    assert ops.plan(batch, num_graphs=graphs + empty).occupied is None
    assert ops.plan(batch, num_graphs=graphs + empty + 8).occupied is not None


def test_a_carried_memory_comes_back_in_its_own_rows() -> None:
    """Carried slots are not compacted, so the returned state has a row for every graph."""
    memory, x, batch = SlotVirtualNode(8, slots=3), torch.randn(6, 8), torch.tensor([3, 3, 20, 20, 40, 40])
    _, first = memory(x, batch, num_graphs=50, return_state=True)
    _, second = memory(x, batch, num_graphs=50, memory=first, return_state=True)
    for graph in (3, 20, 40):
        alone = first._replace(slots=first.slots[graph : graph + 1])
        _, expected = memory(x[batch == graph], memory=alone, return_state=True)
        torch.testing.assert_close(second.slots[graph], expected.slots[0])
        torch.testing.assert_close(second.anchor_weight[graph], expected.anchor_weight[0])
