"""All permutations of a small set, random ones of a large set, and the rank that numbers them."""

from __future__ import annotations

import itertools
import math

import torch
from jaxtyping import Int64
from torch import Tensor


def all_permutations(n: int) -> Int64[Tensor, "factorial n"]:
    """Every permutation of ``range(n)``, in lexicographic order, so that row number and rank agree."""
    return torch.tensor(list(itertools.permutations(range(n))), dtype=torch.long).reshape(math.factorial(n), n)


def random_permutations(count: int, n: int, generator: torch.Generator) -> Int64[Tensor, "count n"]:
    """Independent uniform permutations of ``range(n)``."""
    return torch.rand(count, n, generator=generator, dtype=torch.float64).argsort(dim=1)


def rank(permutations: Int64[Tensor, "count n"]) -> Int64[Tensor, " count"]:
    """The lexicographic number of each permutation, by its Lehmer code.

    Example:
        >>> bool((rank(all_permutations(4)) == torch.arange(24)).all())
        True
    """
    n = permutations.shape[1]
    total = torch.zeros(len(permutations), dtype=torch.long)
    for position in range(n):
        smaller_later = (permutations[:, position + 1 :] < permutations[:, position : position + 1]).sum(dim=1)
        total += smaller_later * math.factorial(n - 1 - position)
    return total
