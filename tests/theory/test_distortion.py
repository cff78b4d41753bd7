import math

import pytest
import torch

from mooring.theory import (
    distortion_series,
    label_recovery_ceiling,
    recovery_by_codebook,
    recovery_by_table,
    recovery_ceiling,
    required_bits,
)
from mooring.theory.distortion import (
    agreements,
    best_recovery,
    fixed_point_log_tail,
    label_series,
    partial_recovery,
    stored_identifiers,
    unused_label,
)
from mooring.theory.instances import all_permutations, random_permutations


@pytest.mark.parametrize("n", [2, 5, 12, 60, 300])
def test_curves_are_ordered_rise_and_meet_at_the_bound(n: int) -> None:
    budgets = [required_bits(n) * step / 30 for step in range(31)]
    ceiling, codebook, table = (
        [curve(n, bits) for bits in budgets] for curve in (recovery_ceiling, recovery_by_codebook, recovery_by_table)
    )
    for curve in (ceiling, codebook, table):
        assert curve == sorted(curve)
        assert curve[0] == pytest.approx(1 / n)
        assert curve[-1] == pytest.approx(1.0)
    assert all(above >= below - 1e-12 for above, below in zip(ceiling, codebook, strict=True))
    assert all(above >= below - 1e-12 for above, below in zip(ceiling, table, strict=True))
    assert recovery_ceiling(n, required_bits(n) - 0.5) < 1


def test_fixed_points_are_counted_exactly() -> None:
    fixed = (all_permutations(6) == torch.arange(6)).sum(dim=1)
    measured = [float((fixed >= t).double().mean().log()) for t in range(1, 7)]
    assert fixed_point_log_tail(6) == pytest.approx(measured)


def test_codebook_curve_is_what_random_codebooks_reach() -> None:
    n, words, draws = 7, 16, 4000
    generator = torch.Generator().manual_seed(0)
    truth = random_permutations(draws, n, generator).unsqueeze(1)
    guesses = random_permutations(draws * words, n, generator).view(draws, words, n)
    best = (guesses == truth).sum(dim=2).amax(dim=1).double() / n
    assert recovery_by_codebook(n, math.log2(words)) == pytest.approx(
        float(best.mean()), abs=4 * float(best.std()) / draws**0.5
    )


def test_stored_identifiers_fit_and_one_more_does_not() -> None:
    for bits in (0, 1, 5.5, 13, 28):
        stored = stored_identifiers(12, bits)
        assert math.factorial(12) / math.factorial(12 - stored) <= 2**bits
        assert math.factorial(12) / math.factorial(12 - stored - 1) > 2**bits
    assert stored_identifiers(12, 29) == 12


def test_ceiling_for_independent_labels_inverts_the_rate_distortion_function() -> None:
    labels = 10
    for distortion in (0.05, 0.3, 0.8):
        entropy = -distortion * math.log2(distortion) - (1 - distortion) * math.log2(1 - distortion)
        rate = math.log2(labels) - entropy - distortion * math.log2(labels - 1)
        assert label_recovery_ceiling(labels, rate) == pytest.approx(1 - distortion)
    assert label_recovery_ceiling(labels, 0) == pytest.approx(1 / labels)
    assert label_recovery_ceiling(labels, 4) == 1.0


def test_distortion_series_draws_the_three_curves_past_the_bound() -> None:
    series = distortion_series(12)
    assert series.x[0] == 0.0
    assert series.x[40] == pytest.approx(required_bits(12))
    curves = (recovery_ceiling, recovery_by_codebook, recovery_by_table)
    for (_, drawn), curve in zip(series.lines, curves, strict=True):
        assert list(drawn) == [curve(12, bits) for bits in series.x]
        assert drawn[-1] == 1.0
    assert series.lines[0][0].startswith("ceiling")


def test_label_series_ends_in_full_recovery() -> None:
    assert all(y[-1] == 1.0 for _, y in label_series(10).lines)


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


def test_a_stored_share_of_labels_is_recovered_and_chance_gives_its_part_of_the_rest() -> None:
    series = label_series(10)
    ceiling, table = (list(y) for _, y in series.lines)
    assert table[0] == pytest.approx(0.1)
    assert table[20] == pytest.approx(0.5 + 0.5 / 10)
    assert all(above >= below - 1e-12 for above, below in zip(ceiling, table, strict=True))
    assert series.x[40] == pytest.approx(math.log2(10))
