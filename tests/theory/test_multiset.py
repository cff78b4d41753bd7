import math

import torch

from mooring.theory.multiset import (
    all_multisets,
    anchored_read,
    color_state,
    exact_histogram,
    histogram,
    normalised_read,
    slot_refine,
)


def test_all_multisets_are_counted_by_stars_and_bars() -> None:
    assert len(all_multisets(3, 5)) == math.comb(5 + 3, 3) - 1
    assert len(set(all_multisets(3, 5))) == len(all_multisets(3, 5))


def test_anchored_output_is_the_proofs() -> None:
    state = color_state(torch.tensor([0, 2, 2]), torch.zeros(3, dtype=torch.long), colors=3, groups=1)
    torch.testing.assert_close(anchored_read(state)[0], torch.tensor([1.0, 1.0, 0.0, 2.0], dtype=torch.float64) / 4)
    torch.testing.assert_close(histogram(anchored_read(state))[0], torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(normalised_read(state)[0], torch.tensor([0.0, 1.0, 0.0, 2.0], dtype=torch.float64) / 3)


def test_an_empty_neighbourhood_has_an_empty_histogram() -> None:
    state = color_state(torch.tensor([1]), torch.tensor([1]), colors=2, groups=3)
    assert exact_histogram(state).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_refinement_of_a_star_tells_hub_from_leaves() -> None:
    edges = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    colors = slot_refine(exact_histogram, torch.zeros(4, dtype=torch.long), edges)
    assert colors[1] == colors[2] == colors[3] != colors[0]
