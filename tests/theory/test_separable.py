import torch

from mooring.theory.permutations import all_permutations
from mooring.theory.separable import best_separable, film_lookup, mixed_difference, random_separable


def tables(n: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(all_permutations(n), n).double()


def test_film_looks_every_label_of_every_permutation_up() -> None:
    truth = tables(4)
    assert torch.equal(film_lookup(4, torch.Generator())(truth), truth)


def test_mixed_difference_of_the_task_is_two_and_of_separable_outputs_zero() -> None:
    truth = tables(2)
    assert mixed_difference(truth).abs().max() == 2
    output = random_separable(2, torch.Generator().manual_seed(0))(truth)
    torch.testing.assert_close(mixed_difference(output), torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_best_separable_is_the_least_squares_optimum() -> None:
    truth = tables(3)
    # All f(h_j) + g(z): one free table a target, one free vector a permutation.
    targets, graphs = 3, len(truth)
    design = torch.zeros(graphs * targets, targets + graphs, dtype=torch.float64)
    rows = torch.arange(graphs * targets)
    design[rows, rows % targets] = 1
    design[rows, targets + rows // targets] = 1
    flat = truth.reshape(-1, 3)
    fitted = design @ torch.linalg.pinv(design) @ flat
    torch.testing.assert_close(best_separable(3, torch.Generator())(truth).reshape(-1, 3), fitted)
