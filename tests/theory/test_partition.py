import pytest
import torch

from mooring.theory.partition import SHARPNESS, Partition, node_key, sign_code, slot_query


@pytest.mark.parametrize(("n", "slots"), [(1, 1), (7, 3), (12, 5), (11, 11)])
def test_groups_are_balanced_and_positions_distinct(n: int, slots: int) -> None:
    partition = Partition(n, slots)
    identifiers = torch.arange(n)
    places = torch.stack([partition.group(identifiers), partition.position(identifiers)], dim=1)
    assert len(torch.unique(places, dim=0)) == n
    assert int(partition.sizes.max() - partition.sizes.min()) <= 1
    assert int(partition.position(identifiers).max()) < partition.capacity == int(partition.sizes.max())


def test_scores_are_zero_on_the_own_code_and_far_below_elsewhere() -> None:
    code = sign_code(torch.arange(13), 13)
    scores = torch.einsum("mhd,nhd->mn", slot_query(code), node_key(code))
    assert (scores.diagonal() == 0).all()
    assert scores.masked_fill(torch.eye(13, dtype=torch.bool), -torch.inf).max() <= -2 * SHARPNESS
    assert scores.softmax(dim=1).diagonal().eq(1).all()


def test_empty_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="slots=5 for n=3 identifiers, but groups may not be empty"):
        Partition(3, 5)
