import math

import pytest
import torch

from mooring.theory.addressing import check_codebook, leakage, matching_weight, read_bound, write_bound
from mooring.theory.codebook import logarithmic_dim


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


def test_a_codebook_of_more_than_logarithmic_dimension_is_rejected_whatever_its_margin() -> None:
    for dims in (lambda slots: 7 * slots + 1, lambda slots: logarithmic_dim(slots) + 1):
        evidence = check_codebook(dims, 5, torch.Generator().manual_seed(0))
        assert not evidence.passed
        assert "above 7 log2 M + 1" in evidence.note
    assert check_codebook(logarithmic_dim, 5, torch.Generator().manual_seed(0)).passed
