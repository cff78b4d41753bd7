import itertools
import math

import pytest
import torch

from mooring.theory.addressing import (
    Draw,
    binary,
    check_codebook,
    leakage,
    logarithmic_dim,
    margin,
    matching_weight,
    read_bound,
    separated,
    spherical,
    write_bound,
)


@pytest.mark.parametrize("draw", [binary, spherical])
@pytest.mark.parametrize("slots", [2, 13, 127])
def test_separated_codebooks_are_unit_vectors_with_their_margin(draw: Draw, slots: int) -> None:
    codebook = separated(slots, logarithmic_dim(slots), draw, torch.Generator().manual_seed(0))
    assert codebook.shape == (slots, logarithmic_dim(slots))
    torch.testing.assert_close(codebook.norm(dim=1), torch.ones(slots, dtype=torch.float64))
    assert margin(codebook) >= 0.5 - 1e-12


def test_margin_is_that_of_the_closest_pair() -> None:
    assert margin(torch.eye(3, dtype=torch.float64)) == 1.0
    assert margin(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=torch.float64)) == pytest.approx(0.2)


def test_a_codebook_too_large_for_its_dimension_is_full_and_measurably_closer() -> None:
    codebook = separated(64, 3, spherical, torch.Generator().manual_seed(0))
    assert codebook.shape == (64, 3)
    assert margin(codebook) < 0.5


def test_a_doubling_of_the_slots_adds_seven_dimensions_whatever_their_number() -> None:
    dims = [logarithmic_dim(2**exponent) for exponent in range(1, 21)]
    assert dims[0] == 8
    assert {after - before for before, after in itertools.pairwise(dims)} == {7}


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
