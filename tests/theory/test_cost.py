import pytest

from mooring.nn import SlotVirtualNode
from mooring.theory.cost import count, count_layer, dense_layer, exponent, slot_layer, square_root


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
