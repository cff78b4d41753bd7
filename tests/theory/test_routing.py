"""What a node gets back of what it wrote."""

import pytest
import torch

from mooring.theory.routing import SLOTS, check_round_trip, round_trip


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
        evidence = check_round_trip(routing, 5, torch.Generator().manual_seed(1))
        assert evidence.passed is holds
