import pytest

from mooring.theory import recovery_by_table
from mooring.theory.recovery import agreements, best_recovery, partial_recovery, unused_label


def test_one_word_agrees_once_on_average_whatever_it_is() -> None:
    assert (agreements(4).double().mean(dim=1) == 1).all()


def test_search_is_exhaustive_where_it_can_be_and_finds_the_known_optima() -> None:
    assert best_recovery(2, 1) == (0.5, True)
    assert best_recovery(2, 2) == (1.0, True)
    # Six permutations of three: six words name all of them.
    assert best_recovery(3, 6)[0] == 1.0
    assert not best_recovery(4, 8)[1]


@pytest.mark.parametrize("stored", [0, 2, 4])
def test_slots_that_store_a_part_recover_that_part_and_one_guess(stored: int) -> None:
    assert float(partial_recovery(5, 2, stored, unused_label)) == pytest.approx((stored + 1) / 5)
    assert recovery_by_table(5, 0) == 1 / 5
