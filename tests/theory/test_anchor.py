import math

import pytest
import torch

from mooring.ops import SlotState, log_odds, write
from mooring.theory.anchor import (
    dedicated_coordinate,
    float32_mass,
    naive_log_odds,
    normalised,
    segment_position,
    stack_states,
    with_anchor,
)


def test_anchor_of_logit_zero_sees_the_number_of_copies() -> None:
    value = torch.ones(1, 1, 1, dtype=torch.float64)
    for copies in (1, 2, 5):
        state = write(torch.zeros_like(value), value.repeat(copies, 1, 1), value.repeat(copies, 1, 1))
        assert normalised(state).item() == 1.0
        torch.testing.assert_close(with_anchor(state).item(), copies / (1 + copies))


def test_stack_passes_source_information_to_the_targets() -> None:
    """Equal targets on X and rX would prove nothing of a stack that never hears its sources."""
    generator = torch.Generator().manual_seed(0)
    source, other, target = torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    stacks = (stack_states(normalised, 3, nodes, target, 1) for nodes in (source, other))
    for first, second in zip(*stacks, strict=True):
        assert (first - second).abs().max() > 1e-3


def state_of(log_mass: float, dtype: torch.dtype) -> SlotState:
    return SlotState(torch.zeros(1, 1, 1, 1, dtype=dtype), torch.full((1, 1, 1), log_mass, dtype=dtype))


def test_both_formulas_agree_where_no_digits_are_at_stake() -> None:
    state, logit = state_of(1.5, torch.float64), torch.full((1, 1), 0.25, dtype=torch.float64)
    assert naive_log_odds(state, logit).item() == pytest.approx(log_odds(state, logit).item(), abs=1e-12)


def test_the_printed_formula_is_infinite_in_float32_where_the_difference_is_exact() -> None:
    state, logit = state_of(-30.0, torch.float32), torch.zeros(1, 1)
    assert naive_log_odds(state, logit).item() == -math.inf
    assert log_odds(state, logit).item() == -30.0


def test_masses_are_drawn_from_the_smallest_to_the_largest() -> None:
    (series,) = float32_mass.check(log_odds, 41, torch.Generator().manual_seed(0)).series
    assert list(series.x) == sorted(series.x)
    assert (series.x[0], series.x[-1]) == pytest.approx((-100, 100), abs=5)


def test_dedicated_coordinate_is_left_to_the_anchor() -> None:
    value = torch.ones(3, 5, dtype=torch.float64)
    assert dedicated_coordinate(value).tolist() == [[0, 1, 1, 1, 1]] * 3


def test_an_anchor_of_the_nodes_own_value_is_found_out_by_the_first_instance() -> None:
    same = segment_position.controls["premise removed: the anchor has the nodes' own value, a = v"]
    evidence = segment_position.check(same, 5, torch.Generator().manual_seed(0))
    assert not evidence.passed
    assert evidence.instances == 401
