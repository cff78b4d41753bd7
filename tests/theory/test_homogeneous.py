import torch

from mooring.nn import VirtualNode
from mooring.theory.homogeneous import (
    Decoder,
    best_separable,
    cloned,
    film_lookup,
    mixed_difference,
    one_differs,
    random_separable,
    separability,
    spread,
)
from mooring.theory.instances import all_permutations


def test_starts_differ_only_where_they_should() -> None:
    generator = torch.Generator().manual_seed(0)
    assert torch.unique(cloned(5, 3, generator), dim=0).shape == (1, 3)
    assert torch.unique(one_differs(5, 3, generator), dim=0).shape == (2, 3)


def test_spread_grows_from_a_difference_and_from_nothing_else() -> None:
    assert max(spread(cloned, 3, 5, torch.Generator().manual_seed(0))) < 1e-12
    assert min(spread(one_differs, 3, 5, torch.Generator().manual_seed(0))) > 1e-9


def test_copies_of_the_librarys_virtual_node_are_clones() -> None:
    module = VirtualNode(8, copies=3).double()
    with torch.no_grad():
        module.state.copy_(torch.randn(8))
    x = torch.randn(7, 8, dtype=torch.float64)
    _, memory = module(x, return_state=True)
    torch.testing.assert_close(memory.slots, memory.slots[:, :1].expand_as(memory.slots))
    with torch.no_grad():
        module.state[0, 0] += 1.0
    _, memory = module(x, return_state=True)
    assert (memory.slots - memory.slots[:, :1]).abs().max() > 1e-3


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
    # All f(h_j) + g(z): one free table per target, one free vector per permutation.
    targets, graphs = 3, len(truth)
    design = torch.zeros(graphs * targets, targets + graphs, dtype=torch.float64)
    rows = torch.arange(graphs * targets)
    design[rows, rows % targets] = 1
    design[rows, targets + rows // targets] = 1
    flat = truth.reshape(-1, 3)
    fitted = design @ torch.linalg.pinv(design) @ flat
    torch.testing.assert_close(best_separable(3, torch.Generator())(truth).reshape(-1, 3), fitted)


def test_a_small_part_that_is_not_separable_is_found_however_wrong_the_answers_are() -> None:
    def nearly_separable(n: int, generator: torch.Generator) -> Decoder:
        separable = best_separable(n, generator)
        return lambda table: separable(table) + 0.1 * table

    evidence = separability.check(nearly_separable, 7, torch.Generator().manual_seed(0))
    assert evidence.margin > -1e-9
    assert not evidence.passed
    assert "largest mixed difference 2.0e-01" in evidence.note


def test_separable_decoders_are_drawn_for_every_size_and_from_the_generator_alone() -> None:
    sizes = set()

    def draw(n: int, generator: torch.Generator) -> Decoder:
        sizes.add(n)
        return random_separable(n, generator)

    assert separability.check(draw, 300, torch.Generator().manual_seed(0)).passed
    assert sizes == set(range(2, 14))
    table = torch.eye(4, dtype=torch.float64).unsqueeze(0)
    answers = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        answers.append(random_separable(4, torch.Generator().manual_seed(0))(table))
    assert torch.equal(*answers)
