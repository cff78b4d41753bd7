import itertools

import pytest
import torch

from mooring.theory.codebook import Draw, binary, logarithmic_dim, margin, separated, spherical


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
