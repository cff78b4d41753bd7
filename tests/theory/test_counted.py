import pytest
import torch

from mooring.theory import CountedTable
from mooring.theory.counted import answer
from mooring.theory.instances import sampled_counted


@pytest.mark.parametrize("slots", [1, 3, 7])
@pytest.mark.parametrize("as_weight", [True, False])
def test_slots_hold_every_count_of_every_label(slots: int, as_weight: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    source = sampled_counted(7, 4, 5, generator).scaled(3)
    target = source.shuffled(generator)
    table = CountedTable(7, slots)
    counts = table.counts(table.write(source, as_weight=as_weight), target)
    truth = torch.nn.functional.one_hot(target.label, 7) * target.count.unsqueeze(1)
    torch.testing.assert_close(counts, truth.double(), atol=1e-9, rtol=0)
    label, count = answer(counts)
    assert torch.equal(label, target.label)
    assert torch.equal(count, target.count)


def test_without_anchors_labels_remain_and_counts_are_gone() -> None:
    generator = torch.Generator().manual_seed(0)
    source = sampled_counted(7, 4, 5, generator).scaled(3)
    table = CountedTable(7, 7, keep_mass=False)
    label, count = answer(table.counts(table.write(source, as_weight=True), source))
    assert torch.equal(label, source.label)
    assert (count == 1).all()
