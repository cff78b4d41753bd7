import pytest

from mooring.theory.cost import count, dense_layer, exponent, slot_layer


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
