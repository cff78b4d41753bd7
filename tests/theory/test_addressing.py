import itertools
import math

import pytest
import torch

from mooring.theory.addressing import (
    Draw,
    all_addresses,
    binary,
    codebook_dims,
    dim_growth,
    leakage,
    least_dim,
    logarithmic_dim,
    margin,
    matching_weight,
    read_bound,
    separated,
    shared_addresses,
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
    weights = matching_weight(codebook / temperature, codebook)
    assert weights.tolist() == pytest.approx([read_bound(5, 1.0, temperature)] * 5)


def test_leakage_is_to_other_groups_only() -> None:
    codebook = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    assert leakage(codebook, torch.tensor([0, 0, 0, 1]), 1.0).tolist() == pytest.approx([0.25, 0.75])


def test_a_codebook_of_more_than_logarithmic_dimension_is_rejected_whatever_its_margin() -> None:
    for dims in (lambda slots: 7 * slots + 1, lambda slots: logarithmic_dim(slots) + 1):
        evidence = codebook_dims.check(dims, 5, torch.Generator().manual_seed(0))
        assert not evidence.passed
        assert "above 7 log2 M + 1" in evidence.note
    assert codebook_dims.check(logarithmic_dim, 5, torch.Generator().manual_seed(0)).passed


@pytest.mark.parametrize("draw", [binary, spherical])
def test_the_least_dimension_holds_a_codebook_and_the_one_below_was_tried(draw: Draw) -> None:
    dim = least_dim(32, draw, torch.Generator().manual_seed(0))
    assert 5 <= dim < logarithmic_dim(32)
    assert any(margin(separated(32, dim, draw, torch.Generator().manual_seed(seed))) >= 0.5 for seed in range(20))


def test_a_step_of_more_than_seven_dimensions_is_rejected() -> None:
    steps = iter([3, 10, 10, 18] * 2)
    evidence = dim_growth.check(lambda slots, draw, generator: next(steps), 4, torch.Generator())
    assert (evidence.passed, evidence.margin) == (False, 8.0)
    steps = iter([3, 10, 10, 17] * 2)
    assert dim_growth.check(lambda slots, draw, generator: next(steps), 4, torch.Generator()).passed


def test_addresses_of_few_bits_are_all_that_there_are() -> None:
    points = all_addresses(2, 2)
    assert len(points.unique(dim=0)) == len(points) == 16
    assert torch.equal(points.sum(dim=0), torch.zeros(2, dtype=torch.float64))
    assert len(all_addresses(0, 3)) == 1


@pytest.mark.parametrize(("slots", "bits", "few", "enough"), [(2, 1, 0, 1), (5, 1, 2, 3), (8, 2, 1, 2), (9, 3, 1, 2)])
def test_coordinates_on_either_side_of_the_bound(slots: int, bits: int, few: int, enough: int) -> None:
    (control,) = shared_addresses.controls.values()
    assert (shared_addresses.subject(slots, bits), control(slots, bits)) == (few, enough)
    assert 2 ** (few * bits) < slots <= 2 ** (enough * bits)
