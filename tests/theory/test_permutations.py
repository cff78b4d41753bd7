import math

import torch

from mooring.theory.permutations import all_permutations, random_permutations, rank


def test_all_permutations_are_all_and_ranked_in_order() -> None:
    permutations = all_permutations(5)
    assert len(torch.unique(permutations, dim=0)) == math.factorial(5)
    assert torch.equal(rank(permutations), torch.arange(math.factorial(5)))


def test_random_permutations_are_permutations_and_uniform() -> None:
    drawn = random_permutations(6000, 3, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.sort(dim=1).values, torch.arange(3).expand(6000, 3))
    # Six equally likely ranks: 1000 each, standard deviation 29.
    assert (torch.bincount(rank(drawn), minlength=6) - 1000).abs().max() < 120
