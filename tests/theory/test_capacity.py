import math

import pytest
import torch
from torch import Tensor

from mooring.theory import construction_width, required_bits, required_width
from mooring.theory.capacity import (
    SAMPLED,
    Budget,
    at_bound,
    below_bound,
    colliding_pair,
    collision,
    injective,
    label_digits,
    layered_transcript,
    rank_transcript,
    required_whole_bits,
    sampled_collision,
    within_search,
)
from mooring.theory.instances import all_permutations, random_permutations, rank


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 100])
@pytest.mark.parametrize(("states", "bits"), [(1, 1), (3, 2), (5, 8)])
def test_required_width_is_the_least_that_numbers_all_permutations(n: int, states: int, bits: int) -> None:
    width = required_width(n, states, bits)
    assert 2 ** (states * width * bits) >= math.factorial(n)
    assert width == 0 or 2 ** (states * (width - 1) * bits) < math.factorial(n)


def test_whole_bits_are_exact_where_the_logarithm_is() -> None:
    assert (required_whole_bits(2), required_bits(2)) == (1, 1.0)
    assert all(required_whole_bits(n) == math.ceil(required_bits(n)) for n in range(2, 200))


@pytest.mark.parametrize(
    ("n", "slots", "bits", "width"), [(12, 12, 4, 2), (12, 1, 4, 12), (1000, 32, 8, 65), (5, 2, 1, 10)]
)
def test_construction_width_is_the_printed_formula(n: int, slots: int, bits: int, width: int) -> None:
    printed = math.ceil(n / slots) * math.ceil(math.log2(n) / bits) + math.ceil(math.log2(slots) / bits)
    assert construction_width(n, slots, bits) == printed == width


def test_construction_never_beats_the_bound() -> None:
    for n in range(2, 60):
        for slots in range(1, n + 1):
            assert slots * construction_width(n, slots, 3) * 3 >= required_bits(n)


@pytest.mark.parametrize(("count", "digits"), [(1, 0), (2, 1), (4, 1), (5, 2), (16, 2), (17, 3)])
def test_label_digits_at_powers_of_the_base(count: int, digits: int) -> None:
    assert label_digits(count, bits=2) == digits


def test_impossible_transcripts_are_refused() -> None:
    with pytest.raises(ValueError, match="required_width: n=3, states=0, bits=1, but each must be at least 1"):
        required_width(3, 0, 1)


def test_colliding_pair_is_two_equal_rows_or_none() -> None:
    rows = torch.tensor([[1, 2], [3, 4], [5, 6], [3, 4]])
    assert colliding_pair(torch.arange(4), rows) == (1, 3)
    assert colliding_pair(rows, rows) == ([3, 4], [3, 4])
    assert colliding_pair(rows[:3], rows[:3]) is None


def test_budget_digits_spell_the_number_to_the_capacity() -> None:
    budget = Budget(n=4, states=2, width=1, bits=2)
    digits = budget.digits(torch.arange(24))
    assert torch.equal(digits[:, 0] + 4 * digits[:, 1], torch.arange(24) % 16)


def test_an_exhibited_pair_collides_and_is_two_permutations() -> None:
    permutations = all_permutations(4)
    transcripts = rank_transcript(permutations, Budget(4, 1, 4, 1), torch.Generator())
    pair = colliding_pair(torch.arange(24), transcripts)
    assert pair is not None
    assert torch.equal(transcripts[pair[0]], transcripts[pair[1]])
    assert not torch.equal(permutations[pair[0]], permutations[pair[1]])


def test_margin_of_a_collision_is_the_least_that_any_budget_fell_short_by() -> None:
    evidence = collision.check(((rank_transcript,), below_bound), 6, torch.Generator())
    shortfalls = {n: math.log2(math.factorial(n)) % 1 for n in (3, 4, 5, 6)}
    assert min(shortfalls, key=shortfalls.__getitem__) == 6
    assert evidence.margin == pytest.approx(shortfalls[6])
    assert evidence.note.startswith("n=6, 9 bits: ")


def test_figure_draws_the_printed_widths_and_they_stay_above_the_bound() -> None:
    (series,) = injective.check(at_bound, 3, torch.Generator()).series
    (_, needed), (_, used) = series.lines
    for n, bound, bits in zip(series.x, needed, used, strict=True):
        slots = min(8, n)
        width = math.ceil(n / slots) * math.ceil(math.log2(n) / 8) + math.ceil(math.log2(slots) / 8)
        assert bound == pytest.approx(math.log2(math.factorial(int(n))))
        assert bits == slots * width * 8 >= bound


def test_the_transcript_of_several_layers_has_their_bits_and_depends_on_each() -> None:
    budget = Budget(n=9, states=3, width=2, bits=3)
    drawn = random_permutations(4000, 9, torch.Generator().manual_seed(0))
    transcripts = layered_transcript(drawn, budget, torch.Generator().manual_seed(1))
    assert transcripts.shape == (4000, 6)
    assert (transcripts.min(), transcripts.max()) == (0, 7)
    # Every coordinate tells something, and a later layer something that those before it do not.
    assert all(len(column.unique()) == 8 for column in transcripts.T)
    layers = [len(transcripts[:, : 2 * layer].unique(dim=0)) for layer in (1, 2, 3)]
    assert layers == sorted(set(layers))


def test_sampled_budgets_are_below_the_bound_and_small_enough_to_search() -> None:
    for n, states, bits in SAMPLED:
        budget = within_search(n, states, bits)
        assert 0 < budget.total_bits <= 22
        assert 2**budget.total_bits < math.factorial(n)


def test_an_encoder_that_tells_all_drawn_apart_is_rejected() -> None:
    def exact(permutations: Tensor, budget: Budget, generator: torch.Generator) -> Tensor:
        return rank(permutations).unsqueeze(1)

    evidence = sampled_collision.check(((exact,), within_search), 1, torch.Generator().manual_seed(0))
    assert not evidence.passed
    assert "exact tells all drawn apart" in evidence.note
