import pytest
import torch

from mooring.suite.two_radius.data import PermutationTask, stream


def test_labels_form_a_permutation_and_nothing_repeats() -> None:
    batch = PermutationTask(7, num_centres=2).batch(5, stream(0, "train"))
    assert batch.num_graphs == 5
    assert batch.num_nodes == 5 * (2 * 7 + 2)
    assert torch.equal(batch.y_label.view(5, 7).sort(dim=1).values, torch.arange(7).expand(5, 7))
    assert batch.y_count.eq(1).all()
    assert batch.multiplicity.eq(1).all()
    assert len({tuple(row) for row in batch.y_label.view(5, 7).tolist()}) == 5


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: num_identifiers=0, expected at least 1\.$"):
        PermutationTask(0)
