"""The construction of thm:upper: an addressable table of M slots, with hand-set inputs of the real write and read.

cor:countedwl uses the same public partition of identifiers into groups and the same sign codes as addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from mooring.ops import read, write
from mooring.theory.capacity import construction_width, label_digits, required_bits
from mooring.theory.claim import Evidence
from mooring.theory.instances import (
    Instances,
    all_permutations,
    all_tables,
    both_sides,
    random_permutations,
    random_tables,
)

# Half the smallest gap between a matching and a mismatched logit. exp(-2000) is exactly 0 in float64, so a softmax over
# such logits is a hard selection, and the disjoint blocks of the proofs are exactly disjoint.
SHARPNESS = 1000.0


@dataclass(frozen=True)
class Partition:
    """Balanced groups ``I_1..I_M`` of ``range(n)``: identifier i has position ``r(i)`` in group ``g(i)``.

    Paper: the construction of thm:upper.

    Example:
        >>> partition = Partition(n=7, slots=3)
        >>> partition.group(torch.arange(7)).tolist(), partition.sizes.tolist()
        ([0, 1, 2, 0, 1, 2, 0], [3, 2, 2])
    """

    n: int
    slots: int

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= self.n:
            raise ValueError(
                f"Partition: slots={self.slots} for n={self.n} identifiers, but no group may be empty. "
                "Use between 1 and n slots."
            )

    def group(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier % self.slots

    def position(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier // self.slots

    @property
    def capacity(self) -> int:
        """``ceil(n / M)``, the number of blocks of one slot."""
        return -(-self.n // self.slots)

    @property
    def sizes(self) -> Int64[Tensor, " slots"]:
        return torch.bincount(torch.arange(self.n) % self.slots, minlength=self.slots)


def sign_code(number: Int64[Tensor, " count"], total: int) -> Float64[Tensor, "count dim"]:
    """Return the binary digits of each number as +-1, in ``max(1, ceil(log2 total))`` dimensions.

    Two different codes differ in at least one digit, so their product is at most ``dim - 2``.
    """
    dim = max(1, (total - 1).bit_length())
    return ((number.unsqueeze(1) >> torch.arange(dim)) & 1).double() * 2 - 1


def slot_query(code: Float64[Tensor, "slots dim"]) -> Float64[Tensor, "slots 1 extended"]:
    """Return queries whose score is 0 on the key of their code and at most ``-2 SHARPNESS`` on any other key."""
    offset = -code.square().sum(dim=1, keepdim=True)
    return (SHARPNESS * torch.cat([code, offset], dim=1)).unsqueeze(1)


def node_key(code: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes 1 extended"]:
    """Return keys for :func:`slot_query`. A read swaps the two roles, with the same scores."""
    return torch.cat([code, torch.ones(len(code), 1, dtype=code.dtype)], dim=1).unsqueeze(1)


AddressCode = Callable[[Int64[Tensor, " count"], int], Float64[Tensor, "count dim"]]


def same_code(number: Int64[Tensor, " count"], total: int) -> Float64[Tensor, "count dim"]:
    """Return one address for all groups, as in a homogeneous virtual node."""
    return torch.ones_like(sign_code(number, total))


@dataclass(frozen=True)
class AddressedTable:
    """Table that maps source (identifier, label) pairs to slots of b-bit integers, and slots to target labels.

    Slot m contains its number m, then one block of label digits per identifier of its group. The write is a softmax
    over nodes, so a slot's content is the mean over its group. Multiplying by the group's size, which is public, gives
    the sum.

    Paper: thm:upper, eq:upper.

    Args:
        n: identifiers and labels.
        slots: groups M.
        bits: bits b of a coordinate.
        alphabet: number of labels C; n if None.
        code: the address of each group.
    """

    n: int
    slots: int
    bits: int
    alphabet: int | None = None
    code: AddressCode = sign_code

    @property
    def partition(self) -> Partition:
        return Partition(self.n, self.slots)

    @property
    def width(self) -> int:
        """Coordinates of one slot: eq:upper with its O(1) equal to 0."""
        return construction_width(self.n, self.slots, self.bits, self.alphabet)

    @property
    def digits(self) -> int:
        """Coordinates of one label."""
        return label_digits(self.alphabet or self.n, self.bits)

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        """Return the memory before rounding; each coordinate is an integer below ``2^b`` up to rounding error.

        Args:
            source: the nodes that write; each identifier occurs at most once per graph.
            members: number of identifiers of each group that write; all if None.
        """
        partition, digits = self.partition, self.digits
        nodes = torch.arange(len(source.identifier))
        value = torch.zeros(len(nodes), partition.capacity, digits, dtype=torch.float64)
        value[nodes, partition.position(source.identifier)] = self._digits(source.label, digits)
        state = write(
            slot_query(self.code(torch.arange(self.slots), self.slots)),
            node_key(self.code(partition.group(source.identifier), self.slots)),
            value.flatten(1).unsqueeze(1),
            source.graph,
            num_graphs=source.num_graphs,
        )
        payload = state.content.squeeze(2) * (partition.sizes if members is None else members).view(-1, 1)
        address = self._digits(torch.arange(self.slots), label_digits(self.slots, self.bits))
        return torch.cat([address.expand(source.num_graphs, -1, -1), payload], dim=2)

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        """Return the label that each target recovers from the memory of its graph and its identifier."""
        partition, digits = self.partition, self.digits
        address, payload = memory.tensor_split([label_digits(self.slots, self.bits)], dim=2)
        slot = self._number(address).flatten()
        key = slot_query(self.code(slot, self.slots)).view(*address.shape[:2], 1, -1)
        context = read(
            node_key(self.code(partition.group(target.identifier), self.slots)),
            key,
            payload.double().unsqueeze(2),
            target.graph,
        )
        blocks = context.view(len(target.identifier), partition.capacity, digits)
        chosen = blocks[torch.arange(len(blocks)), partition.position(target.identifier)]
        return self._number(chosen.round().long())

    def _digits(self, number: Int64[Tensor, " count"], digits: int) -> Float64[Tensor, "count digits"]:
        return ((number.unsqueeze(1) >> (torch.arange(digits) * self.bits)) & ((1 << self.bits) - 1)).double()

    def _number(self, digits: Int64[Tensor, "*batch digits"]) -> Int64[Tensor, "*batch"]:
        return (digits << (torch.arange(digits.shape[-1]) * self.bits)).sum(dim=-1)


class OverflowingTable(AddressedTable):
    """Wrong table that answers correctly, but adds ``2^b`` to every payload."""

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        memory = super().write(source, members)
        memory[:, :, label_digits(self.slots, self.bits) :] += 1 << self.bits
        return memory

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        return super().read(memory & ((1 << self.bits) - 1), target)


class OrderedTable(AddressedTable):
    """Wrong table that answers correctly, but whose slot order depends on the first source."""

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        # A slot contains its number, so targets find it at any position.
        return super().write(source, members).roll(int(source.identifier[0]), dims=1)


class PaddedTable(AddressedTable):
    """Wrong table that answers correctly, but whose slots have one coordinate more than eq:upper."""

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        return torch.nn.functional.pad(super().write(source, members), (0, 1))

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        return super().read(memory[:, :, :-1], target)


Build = Callable[[int, int, int], AddressedTable]

# Every number of slots for up to six identifiers, and one setting of seven.
ENUMERATED = (*((n, slots, bits) for n in range(2, 7) for slots in range(1, n + 1) for bits in (1, 2, 8)), (7, 3, 2))
SAMPLED = ((30, 7, 1), (101, 10, 4), (256, 16, 8), (499, 499, 3), (1000, 32, 8), (1000, 125, 2))


def check_construction(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Check that all permutations of small sets, and ``instances`` random ones of larger sets, are recovered in
    full.
    """
    examined, worst, distinct, overhead = 0, 0.0, 0, 0.0
    for n, slots, bits in (*ENUMERATED, *SAMPLED):
        table = build(n, slots, bits)
        enumerated = (n, slots, bits) in ENUMERATED
        labels = all_permutations(n) if enumerated else random_permutations(instances, n, generator)
        source, target = both_sides(labels, generator)
        served = _serve(table, source, target, generator, width=construction_width(n, slots, bits), distinct=enumerated)
        worst = max(worst, served.furthest)
        examined += source.num_graphs
        if served.fault:
            return Evidence(False, 0.5 - worst, examined, f"n={n}, M={slots}, b={bits}, {served.fault}")
        distinct += source.num_graphs * enumerated
        overhead = slots * table.width * bits / required_bits(n)
    note = f"all n! for n<=7 ({distinct} distinct memories), random ones to n=1000 in {overhead:.2f} log2 n! bits"
    return Evidence(True, 0.5 - worst, examined, note)


# (n, M, b, C): every table of the first list, random tables of the second.
ALL_TABLES = tuple(
    (n, slots, bits, c) for n, c in ((2, 5), (3, 7), (4, 3)) for slots in range(1, n + 1) for bits in (1, 3)
)
SOME_TABLES = ((30, 7, 1, 2), (101, 10, 4, 5000), (256, 16, 8, 3), (500, 125, 2, 97))


def check_alphabet(build: Callable[..., AddressedTable], instances: int, generator: torch.Generator) -> Evidence:
    """Check that labels drawn independently from C kinds are recovered in full, at the width of the formula."""
    examined, worst, overhead = 0, 0.0, 0.0
    for n, slots, bits, alphabet in (*ALL_TABLES, *SOME_TABLES):
        enumerated = (n, slots, bits, alphabet) in ALL_TABLES
        labels = all_tables(n, alphabet) if enumerated else random_tables(instances, n, alphabet, generator)
        source, target = both_sides(labels, generator)
        width = construction_width(n, slots, bits, alphabet)
        table = build(n, slots, bits, alphabet)
        served = _serve(table, source, target, generator, width=width, distinct=enumerated)
        worst = max(worst, served.furthest)
        examined += source.num_graphs
        if served.fault:
            return Evidence(False, 0.5 - worst, examined, f"n={n}, M={slots}, b={bits}, C={alphabet}, {served.fault}")
        overhead = slots * width * bits / (n * math.log2(alphabet))
    note = f"all C^n for n<=4, random ones to n=500 and C=5000; the last in {overhead:.2f} n log2 C bits"
    return Evidence(True, 0.5 - worst, examined, note)


@dataclass(frozen=True)
class _Served:
    """Result of :func:`_serve`: the largest distance of a coordinate from an integer, and the first fault."""

    furthest: float
    fault: str


def _serve(
    table: AddressedTable,
    source: Instances,
    target: Instances,
    generator: torch.Generator,
    *,
    width: int,
    distinct: bool,
) -> _Served:
    """Write, round and read; check the width, ``b`` bits, independence of source order, and every label.

    Args:
        table: the construction.
        source, target: the nodes that write and read.
        generator: source of the second order.
        width: required coordinates per slot.
        distinct: whether all graphs differ, which requires distinct memories.
    """
    memory = table.write(source)
    rounded = memory.round()
    furthest = float((memory - rounded).abs().max())
    fault = ""
    if memory.shape[2] != width:
        fault = "not the width of eq:upper"
    elif rounded.min() < 0 or rounded.max() >= 1 << table.bits:
        fault = "a coordinate does not fit b bits"
    elif (table.write(source.shuffled(generator)).round() != rounded).any():
        fault = "the memory depends on source order"
    else:
        wrong = int((table.read(rounded.long(), target) != target.label).sum())
        if wrong:
            fault = f"{wrong} of {len(target.label)} targets wrong"
        elif distinct and len(torch.unique(rounded.flatten(1), dim=0)) != source.num_graphs:
            fault = "two instances share a memory"
    return _Served(furthest, f"d={memory.shape[2]}: {fault}" if fault else "")
