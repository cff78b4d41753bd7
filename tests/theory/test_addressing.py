import math

import pytest
import torch

from mooring.theory.addressing import leakage, matching_weight, read_bound, write_bound


def test_bounds_are_met_by_equidistant_addresses() -> None:
    codebook = torch.eye(5, dtype=torch.float64)
    temperature, members = 0.3, 4
    group = torch.arange(5).repeat_interleave(members)
    other = math.exp(-1 / temperature)
    assert leakage(codebook, group, temperature).tolist() == pytest.approx([4 * other / (1 + 4 * other)] * 5)
    assert write_bound(len(group), members, 1.0, temperature) == pytest.approx(4 * other)
    weights = matching_weight(codebook, temperature)
    assert weights.tolist() == pytest.approx([read_bound(5, 1.0, temperature)] * 5)


def test_leakage_is_to_other_groups_only() -> None:
    codebook = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    assert leakage(codebook, torch.tensor([0, 0, 0, 1]), 1.0).tolist() == pytest.approx([0.25, 0.75])
