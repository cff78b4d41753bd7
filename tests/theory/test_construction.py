import pytest
import torch
from torch import Tensor

from mooring.theory import AddressedTable
from mooring.theory.construction import (
    SHARPNESS,
    OrderedTable,
    OverflowingTable,
    PaddedTable,
    Partition,
    SharedAddressTable,
    node_key,
    permutation_table,
    sign_code,
    slot_query,
)
from mooring.theory.instances import Instances, all_permutations, both_sides, random_permutations


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
    with pytest.raises(ValueError, match="slots=5 for n=3 identifiers, but no group may be empty"):
        Partition(3, 5)


@pytest.mark.parametrize(("n", "slots", "bits"), [(5, 2, 1), (5, 5, 2), (4, 1, 8), (97, 13, 3)])
def test_table_stores_integers_of_b_bits_and_gives_every_label_back(n: int, slots: int, bits: int) -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = both_sides(all_permutations(n) if n < 6 else random_permutations(3, n, generator), generator)
    table = AddressedTable(n, slots, bits)
    memory = table.write(source)
    assert memory.shape == (source.num_graphs, slots, table.width)
    torch.testing.assert_close(memory, memory.round(), atol=1e-9, rtol=0)
    assert 0 <= int(memory.round().min()) <= int(memory.round().max()) < 2**bits
    assert torch.equal(table.read(memory.round().long(), target), target.label)


def test_a_target_reads_from_its_own_graph_and_slot() -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = both_sides(random_permutations(5, 7, generator), generator)
    table = AddressedTable(7, 3, bits=3)
    memory = table.write(source).round().long()
    # Slot 1 of graph 2: its first block, after the address, is identifier 1; its last has no identifier below 7.
    memory[2, 1, 1] ^= 1
    memory[2, 1, table.width - 1] ^= 1
    changed = table.read(memory, target) != target.label
    assert torch.equal(changed, (target.graph == 2) & (target.identifier == 1))


def test_one_address_for_all_slots_is_a_homogeneous_memory() -> None:
    source, target = both_sides(all_permutations(4), torch.Generator().manual_seed(0))
    table = SharedAddressTable(4, 2, 2)
    memory = table.write(source).round().long()
    assert (table.read(memory, target) != target.label).any()


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (OverflowingTable, "a coordinate does not fit b bits"),
        (OrderedTable, "the memory depends on source order"),
        (PaddedTable, "not the width of eq:upper"),
    ],
)
def test_a_table_with_one_fault_serves_every_target_and_is_rejected_for_that_fault(
    table: type[AddressedTable], reason: str
) -> None:
    source, target = both_sides(all_permutations(5), torch.Generator().manual_seed(0))
    faulty = table(5, 3, bits=2)
    assert torch.equal(faulty.read(faulty.write(source).round().long(), target), target.label)
    evidence = permutation_table.check(table, 1, torch.Generator().manual_seed(0))
    assert not evidence.passed
    assert reason in evidence.note


def test_a_graph_without_sources_has_a_memory_too() -> None:
    generator = torch.Generator().manual_seed(0)
    source, _ = both_sides(random_permutations(5, 7, generator), generator)
    table = AddressedTable(7, 3, bits=3)
    memory = table.write(source.take((source.graph < 3).nonzero().squeeze(1)))
    assert len(memory) == 5
    assert torch.equal(memory[3], memory[4])
    assert int(memory[4, :, 1:].abs().max()) == 0


class NegativeTable(AddressedTable):
    """Serves every target, but with coordinates below zero."""

    def write(self, source: Instances, members: Tensor | None = None) -> Tensor:
        return super().write(source, members) - (1 << self.bits)

    def read(self, memory: Tensor, target: Instances) -> Tensor:
        return super().read(memory + (1 << self.bits), target)


def test_coordinates_leave_the_range_of_b_bits_on_either_side() -> None:
    source, _ = both_sides(all_permutations(5), torch.Generator().manual_seed(0))
    assert int(OverflowingTable(5, 3, bits=2).write(source)[:, :, 1:].min()) >= 4
    assert int(NegativeTable(5, 3, bits=2).write(source).max()) < 0
    evidence = permutation_table.check(NegativeTable, 1, torch.Generator().manual_seed(0))
    assert not evidence.passed
    assert "does not fit b bits" in evidence.note


def test_labels_of_an_alphabet_take_its_digits_whatever_the_number_of_identifiers() -> None:
    table = AddressedTable(n=6, slots=2, bits=3, alphabet=100)
    generator = torch.Generator().manual_seed(0)
    source, target = both_sides(torch.randint(100, (5, 6), generator=generator), generator)
    memory = table.write(source)
    # Three identifiers of three digits each, and the number of the slot.
    assert memory.shape == (5, 2, 3 * 3 + 1)
    assert torch.equal(table.read(memory.round().long(), target), target.label)
    assert int(source.label.max()) > 64
