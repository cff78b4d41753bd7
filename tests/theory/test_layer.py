"""An untrained layer: what a node gets back of what it wrote, and what a pass costs."""

import pytest
import torch

from mooring.nn import SlotVirtualNode
from mooring.theory.layer import (
    SLOTS,
    count,
    count_layer,
    dense_layer,
    exponent,
    round_trip,
    round_trip_trace,
    slot_layer,
    square_root,
)


def test_reads_that_do_not_know_where_nodes_wrote_are_one_virtual_node_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    traces = [float(round_trip("free", 1.0, 64, generator)[0].trace()) for _ in range(60)]
    assert sum(traces) / len(traces) == pytest.approx(1.0, abs=0.05)


def test_self_addressed_slots_start_as_several() -> None:
    generator = torch.Generator().manual_seed(0)
    traces = [float(round_trip("self", 0.25, 64, generator)[0].trace()) for _ in range(20)]
    assert 3.0 < min(traces) <= max(traces) < SLOTS


def test_equal_addresses_are_one_virtual_node() -> None:
    """The left end of the bound: at a high temperature all scores are equal."""
    trip, dependence = round_trip("self", 1e6, 11, torch.Generator().manual_seed(0))
    assert torch.allclose(trip, torch.full_like(trip, 1 / 11))
    assert dependence == pytest.approx(1.0)


def test_the_check_tells_the_two_kinds_apart() -> None:
    for routing, holds in (("self", True), ("free", False)):
        evidence = round_trip_trace.check(routing, 5, torch.Generator().manual_seed(1))
        assert evidence.passed is holds


def test_counter_steps_into_our_operators() -> None:
    n, slots, dim = 97, 5, 7
    counter = count(slot_layer, n, slots, dim)
    # Scores and contents of the write, scores and contexts of the read; one exponential per pair and direction.
    assert counter.multiply_adds == 4 * n * slots * dim
    assert counter.pairs == 2 * n * slots


def test_counter_counts_dense_attention() -> None:
    counter = count(dense_layer, 31, 5, 7)
    assert counter.multiply_adds == 2 * 31 * 31 * 7
    assert counter.pairs == 31 * 31


def test_exponent_of_a_power_is_its_power() -> None:
    assert exponent([2, 3, 5, 11], [7 * size**2 for size in (2, 3, 5, 11)]) == pytest.approx(2.0)


def test_a_layer_counts_its_edges_and_its_memory() -> None:
    few, more = (count_layer(SlotVirtualNode, 64, degree, slots=8, dim=16) for degree in (2, 6))
    # Four more messages per node: gathered, added up, and at least that.
    assert 4 * 64 * 16 <= more - few <= 4 * 4 * 64 * 16
    assert count_layer(SlotVirtualNode, 64, 2, slots=16, dim=16) > few


@pytest.mark.parametrize(("n", "root"), [(1, 1), (128, 12), (144, 12), (145, 13)])
def test_the_square_root_is_rounded_up(n: int, root: int) -> None:
    assert square_root(n) == root
