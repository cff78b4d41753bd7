import pytest
import torch

from mooring.nn import SlotVirtualNode
from mooring.theory import CountedTable, HandSetMemory
from mooring.theory.construction import Partition
from mooring.theory.handset import COUNT_SIZES, recalled_labels, wrong_answers
from mooring.theory.instances import Instances, sampled_counted


def sources_and_targets(n: int) -> tuple[Instances, Instances]:
    generator = torch.Generator().manual_seed(0)
    nodes = sampled_counted(n, 4, 9, generator)
    return nodes, nodes.shuffled(generator)


@pytest.mark.parametrize("as_weight", [False, True])
def test_module_recovers_payload_and_mass_through_its_layer_norms(as_weight: bool) -> None:
    nodes, target = sources_and_targets(5)
    source, log_weight = (nodes, nodes.count.double().log()) if as_weight else (nodes.copied(), None)
    memory = HandSetMemory(Partition(5, 5), block=3, anchored=True)
    assert isinstance(memory.build(), SlotVirtualNode)
    payload = torch.randn(5, 3, dtype=torch.float64)
    recalled, mass = memory.recall(source, target, payload[source.identifier], log_weight)
    torch.testing.assert_close(recalled, payload[target.identifier], atol=1e-8, rtol=0)
    torch.testing.assert_close(mass, target.count.double(), atol=1e-8, rtol=0)


def test_without_anchors_the_mass_channel_is_silent() -> None:
    source, target = sources_and_targets(5)
    memory = HandSetMemory(Partition(5, 5), block=3, anchored=False)
    payload = torch.randn(5, 3, dtype=torch.float64)[source.identifier]
    _, mass = memory.recall(source.copied(), target, payload.repeat_interleave(source.count, dim=0))
    torch.testing.assert_close(mass, torch.zeros_like(mass), atol=1e-12, rtol=0)


def test_every_weight_is_the_librarys_own_and_frozen() -> None:
    memory = HandSetMemory(Partition(7, 2), block=1, anchored=True)
    fresh = SlotVirtualNode(memory.channels, 2, heads=1, address_channels=2, integrate="residual").double()
    fresh.load_state_dict(memory.build().state_dict())
    assert not any(parameter.requires_grad for parameter in memory.build().parameters())


def test_an_address_may_be_wider_than_what_is_stored() -> None:
    source, target = sources_and_targets(17)
    memory = HandSetMemory(Partition(17, 17), block=1, anchored=True)
    assert memory.channels > memory.payload + 3
    payload = torch.randn(17, 1, dtype=torch.float64)
    recalled, mass = memory.recall(source.copied(), target, payload[source.copied().identifier])
    torch.testing.assert_close(recalled, payload[target.identifier], atol=1e-8, rtol=0)
    torch.testing.assert_close(mass, target.count.double(), atol=1e-8, rtol=0)


def test_counts_are_checked_with_one_slot_with_one_per_identifier_and_with_even_and_uneven_groups() -> None:
    kinds = [(slots == 1, slots == n, n % slots == 0) for n, slots in COUNT_SIZES]
    assert {(True, False, True), (False, True, True), (False, False, True), (False, False, False)} == {*kinds}


def test_the_margin_is_what_is_left_of_one_half() -> None:
    evidence = recalled_labels.check(recalled_labels.subject, 2, torch.Generator().manual_seed(0))
    assert evidence.passed
    assert 0.49 < evidence.margin < 0.5


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
    assert not wrong_answers(counts, target).any()


def test_without_anchors_labels_remain_and_counts_are_gone() -> None:
    generator = torch.Generator().manual_seed(0)
    source = sampled_counted(7, 4, 5, generator).scaled(3)
    table = CountedTable(7, 7, keep_mass=False)
    counts = table.counts(table.write(source, as_weight=True), source)
    assert torch.equal(counts.argmax(dim=1), source.label)
    assert (counts.amax(dim=1).round() == 1).all()
    assert torch.equal(wrong_answers(counts, source), source.count != 1)
