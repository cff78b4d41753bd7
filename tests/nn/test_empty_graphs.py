"""Graphs without nodes cost next to nothing."""

import time

import pytest
import torch

from mooring.nn import SlotVirtualNode


def seconds(memory: SlotVirtualNode, x: torch.Tensor, batch: torch.Tensor) -> float:
    """The best of several passes, forward and backward."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        memory(x, batch).sum().backward()
        times.append(time.perf_counter() - start)
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
