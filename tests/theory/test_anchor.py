import math

import pytest
import torch

from mooring.ops import SlotState, log_odds
from mooring.theory.anchor import dedicated, naive_log_odds


def state_of(log_mass: float, dtype: torch.dtype) -> SlotState:
    return SlotState(torch.zeros(1, 1, 1, 1, dtype=dtype), torch.full((1, 1, 1), log_mass, dtype=dtype))


def test_both_formulas_agree_where_no_digits_are_at_stake() -> None:
    state, logit = state_of(1.5, torch.float64), torch.full((1, 1), 0.25, dtype=torch.float64)
    assert naive_log_odds(state, logit).item() == pytest.approx(log_odds(state, logit).item(), abs=1e-12)


def test_the_printed_formula_is_infinite_in_float32_where_the_difference_is_exact() -> None:
    state, logit = state_of(-30.0, torch.float32), torch.zeros(1, 1)
    assert naive_log_odds(state, logit).item() == -math.inf
    assert log_odds(state, logit).item() == -30.0


def test_dedicated_coordinate_is_left_to_the_anchor() -> None:
    value = torch.ones(3, 5, dtype=torch.float64)
    assert dedicated(value).tolist() == [[0, 1, 1, 1, 1]] * 3
