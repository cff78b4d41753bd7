"""The largest input before inf or NaN."""

from audit.specimens import AllPairs, NaiveSoftmax, SmallSetsOnly, SumReadout
from mooring.audit import adapt, measure


def test_sum_is_finite_as_far_as_tried() -> None:
    finding = measure("numeric_range", adapt(SumReadout(), channels=7), 0, 3)
    assert not finding.broken
    assert finding.details == {"largest_exponent": 36, "largest_nodes": 10_000, "tried_nodes": 10_000}


def test_an_unshifted_softmax_overflows() -> None:
    finding = measure("numeric_range", adapt(NaiveSoftmax(), channels=7), 0, 3)
    assert finding.broken
    assert finding.details["largest_exponent"] == 0


def test_nodes_are_tried_too() -> None:
    finding = measure("numeric_range", adapt(SmallSetsOnly(), channels=7), 0, 3)
    assert finding.broken
    assert finding.details["largest_nodes"] == 100


def test_all_pairs_are_not_tried_on_ten_thousand_nodes() -> None:
    finding = measure("numeric_range", adapt(AllPairs(), channels=7), 0, 1)
    assert finding.details["tried_nodes"] == 1_000
