import torch

from mooring.theory.capacity import Budget, colliding_pair, rank_transcript
from mooring.theory.permutations import all_permutations


def test_colliding_pair_is_two_equal_rows_or_none() -> None:
    rows = torch.tensor([[1, 2], [3, 4], [5, 6], [3, 4]])
    assert colliding_pair(rows) == (1, 3)
    assert colliding_pair(rows[:3]) is None


def test_budget_digits_spell_the_number_to_the_capacity() -> None:
    budget = Budget(n=4, states=2, width=1, bits=2)
    digits = budget.digits(torch.arange(24))
    assert torch.equal(digits[:, 0] + 4 * digits[:, 1], torch.arange(24) % 16)


def test_an_exhibited_pair_collides_and_is_two_permutations() -> None:
    permutations = all_permutations(4)
    transcripts = rank_transcript(permutations, Budget(4, 1, 4, 1), torch.Generator())
    pair = colliding_pair(transcripts)
    assert pair is not None
    assert torch.equal(transcripts[pair[0]], transcripts[pair[1]])
    assert not torch.equal(permutations[pair[0]], permutations[pair[1]])
