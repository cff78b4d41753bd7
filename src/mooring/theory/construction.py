"""The construction of thm:upper: an addressable table of M slots, with hand-set inputs of the real write and read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Generator, Tensor

from mooring.ops import read, write
from mooring.theory.capacity import construction_width, label_digits, required_bits
from mooring.theory.claim import Evidence, claim, judge_integers
from mooring.theory.instances import Instances, all_permutations, all_tables, both_sides, random_permutations

# Half the smallest gap between a matching and a mismatched logit. exp(-2000) is exactly 0 in float64, so a softmax over
# such logits is a hard selection, and the disjoint blocks of the proofs are exactly disjoint.
SHARPNESS = 1000.0


@dataclass(frozen=True)
class Partition:
    """Balanced groups ``I_1..I_M`` of ``range(n)``: identifier i has position ``r(i)`` in group ``g(i)``."""

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

    def query(self) -> Float64[Tensor, "slots 1 extended"]:
        """Return the query of each slot, which has the sign code of its group as address."""
        return slot_query(sign_code(torch.arange(self.slots), self.slots))

    def key(self, identifier: Int64[Tensor, " nodes"]) -> Float64[Tensor, "nodes 1 extended"]:
        """Return keys that match the query of each identifier's group."""
        return node_key(sign_code(self.group(identifier), self.slots))

    def place(
        self, payload: Float64[Tensor, "nodes block"], identifier: Int64[Tensor, " nodes"]
    ) -> Float64[Tensor, "nodes width"]:
        """Return rows of ``capacity`` blocks with each payload in the block of its identifier and 0 elsewhere."""
        rows = torch.zeros(len(payload), self.capacity, payload.shape[1], dtype=payload.dtype)
        rows[torch.arange(len(payload)), self.position(identifier)] = payload
        return rows.flatten(1)

    def pick(
        self, rows: Float64[Tensor, "nodes width"], identifier: Int64[Tensor, " nodes"]
    ) -> Float64[Tensor, "nodes block"]:
        """Return the block of each identifier, the inverse of :meth:`place`."""
        blocks = rows.view(len(rows), self.capacity, rows.shape[1] // self.capacity)
        return blocks[torch.arange(len(rows)), self.position(identifier)]


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


Memory = Float64[Tensor, "graphs slots width"]


@dataclass(frozen=True)
class AddressedTable:
    """Table that maps source (identifier, label) pairs to slots of b-bit integers, and slots to target labels.

    Slot m contains its number m, then one block of label digits per identifier of its group. The write is a softmax
    over nodes, so a slot's content is the mean over its group. Multiplying by the group's size, which is public, gives
    the sum. There are M = ``slots`` groups, b = ``bits`` per coordinate, and C = ``alphabet`` labels, n if None.

    Paper: thm:upper, eq:upper.
    """

    n: int
    slots: int
    bits: int
    alphabet: int | None = None

    @property
    def partition(self) -> Partition:
        return Partition(self.n, self.slots)

    @property
    def width(self) -> int:
        """Coordinates of one slot: eq:upper with its O(1) equal to 0."""
        return construction_width(self.n, self.slots, self.bits, self.alphabet)

    @property
    def address_digits(self) -> int:
        """Coordinates of the number of a slot."""
        return label_digits(self.slots, self.bits)

    def code(self, group: Int64[Tensor, " count"]) -> Float64[Tensor, "count dim"]:
        """Return the address of each group."""
        return sign_code(group, self.slots)

    def write(self, source: Instances, members: Int64[Tensor, " slots"] | None = None) -> Memory:
        """Return the memory before rounding; each coordinate is an integer below ``2^b`` up to rounding error.

        Each identifier writes at most once per graph; ``members`` of each group do, all if None.
        """
        digits = self._digits(source.label, label_digits(self.alphabet or self.n, self.bits))
        state = write(
            slot_query(self.code(torch.arange(self.slots))),
            node_key(self.code(self.partition.group(source.identifier))),
            self.partition.place(digits, source.identifier).unsqueeze(1),
            source.graph,
            num_graphs=source.num_graphs,
        )
        payload = state.content.squeeze(2) * (self.partition.sizes if members is None else members).view(-1, 1)
        address = self._digits(torch.arange(self.slots), self.address_digits)
        return torch.cat([address.expand(source.num_graphs, -1, -1), payload], dim=2)

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        """Return the label that each target recovers from the memory of its graph and its identifier."""
        address, payload = memory.tensor_split([self.address_digits], dim=2)
        key = slot_query(self.code(self._number(address).flatten())).view(*address.shape[:2], 1, -1)
        query = node_key(self.code(self.partition.group(target.identifier)))
        context = read(query, key, payload.double().unsqueeze(2), target.graph)[:, 0]
        return self._number(self.partition.pick(context, target.identifier).round().long())

    def _digits(self, number: Int64[Tensor, " count"], digits: int) -> Float64[Tensor, "count digits"]:
        return ((number.unsqueeze(1) >> (torch.arange(digits) * self.bits)) & ((1 << self.bits) - 1)).double()

    def _number(self, digits: Int64[Tensor, "*batch digits"]) -> Int64[Tensor, "*batch"]:
        return (digits << (torch.arange(digits.shape[-1]) * self.bits)).sum(dim=-1)


class SharedAddressTable(AddressedTable):
    """Wrong table whose groups all have one address, as in a homogeneous virtual node."""

    def code(self, group: Int64[Tensor, " count"]) -> Float64[Tensor, "count dim"]:
        return torch.ones_like(super().code(group))


class OverflowingTable(AddressedTable):
    """Wrong table that answers correctly, but adds ``2^b`` to every payload."""

    def write(self, source: Instances, members: Int64[Tensor, " slots"] | None = None) -> Memory:
        memory = super().write(source, members)
        memory[:, :, self.address_digits :] += 1 << self.bits
        return memory

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        return super().read(memory & ((1 << self.bits) - 1), target)


class OrderedTable(AddressedTable):
    """Wrong table that answers correctly, but whose slot order depends on the first source."""

    def write(self, source: Instances, members: Int64[Tensor, " slots"] | None = None) -> Memory:
        # A slot contains its number, so targets find it at any position.
        return super().write(source, members).roll(int(source.identifier[0]), dims=1)


class PaddedTable(AddressedTable):
    """Wrong table that answers correctly, but whose slots have one coordinate more than eq:upper."""

    def write(self, source: Instances, members: Int64[Tensor, " slots"] | None = None) -> Memory:
        return torch.nn.functional.pad(super().write(source, members), (0, 1))

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        return super().read(memory[:, :, :-1], target)


# Sizes are (n, M, b): every number of slots for up to six identifiers, one setting of seven, and random permutations.
ENUMERATED = (*((n, slots, bits) for n in range(2, 7) for slots in range(1, n + 1) for bits in (1, 2, 8)), (7, 3, 2))
SAMPLED = ((30, 7, 1), (101, 10, 4), (256, 16, 8), (499, 499, 3), (1000, 32, 8), (1000, 125, 2))


@claim(
    "thm:upper",
    "M addressed slots of the width of eq:upper, hand-set on ops.write and ops.read, solve Two-Radius.",
    subject=AddressedTable,
    controls={
        "premise removed: every group has the same address, as in a homogeneous virtual node": SharedAddressTable,
        "coordinates above 2^b": OverflowingTable,
        "a memory that depends on source order": OrderedTable,
        "one coordinate more than eq:upper": PaddedTable,
    },
    margin_means="0.5 minus the furthest any stored coordinate was from its b-bit integer before rounding",
    instances=12,
)
def permutation_table(
    build: Callable[[int, int, int], AddressedTable], instances: int, generator: Generator
) -> Evidence:
    """Check that all permutations of small sets, and ``instances`` random ones of larger sets, are recovered."""

    def cases() -> Iterator[tuple[int, Tensor, str]]:
        for size in (*ENUMERATED, *SAMPLED):
            every = size in ENUMERATED
            labels = all_permutations(size[0]) if every else random_permutations(instances, size[0], generator)
            yield _examined(build(*size), size, labels, every, generator)

    n, slots, bits = SAMPLED[-1]
    overhead = slots * construction_width(n, slots, bits) * bits / required_bits(n)
    distinct = sum(math.factorial(n) for n, _, _ in ENUMERATED)
    note = f"all n! for n<=7 ({distinct} distinct memories), random ones to n=1000 in {overhead:.2f} log2 n! bits"
    return judge_integers(cases(), note)


# Sizes are (n, M, b, C).
ALL_TABLES = tuple(
    (n, slots, bits, c) for n, c in ((2, 5), (3, 7), (4, 3)) for slots in range(1, n + 1) for bits in (1, 3)
)
SOME_TABLES = ((30, 7, 1, 2), (101, 10, 4, 5000), (256, 16, 8, 3), (500, 125, 2, 97))


@claim(
    "app:capacity.alphabet",
    "The same slots hold independent labels of C kinds in ceil(n/M) ceil(log2 C / b) coordinates.",
    subject=AddressedTable,
    controls={
        "premise removed: every group has the same address": SharedAddressTable,
        "coordinates above 2^b": OverflowingTable,
        "a memory that depends on source order": OrderedTable,
        "a table for half as many kinds": lambda n, slots, bits, alphabet: AddressedTable(
            n, slots, bits, alphabet // 2
        ),
    },
    margin_means="0.5 minus the furthest any stored coordinate was from its b-bit integer before rounding",
    instances=12,
)
def alphabet_table(
    build: Callable[[int, int, int, int], AddressedTable], instances: int, generator: Generator
) -> Evidence:
    """Check that labels drawn independently from C kinds are recovered in full, at the width of the formula."""

    def cases() -> Iterator[tuple[int, Tensor, str]]:
        for size in (*ALL_TABLES, *SOME_TABLES):
            n, _, _, alphabet = size
            every = size in ALL_TABLES
            labels = all_tables(n, alphabet) if every else torch.randint(alphabet, (instances, n), generator=generator)
            yield _examined(build(*size), size, labels, every, generator)

    n, slots, bits, alphabet = SOME_TABLES[-1]
    overhead = slots * construction_width(n, slots, bits, alphabet) * bits / (n * math.log2(alphabet))
    note = f"all C^n for n<=4, random ones to n=500 and C=5000; the last in {overhead:.2f} n log2 C bits"
    return judge_integers(cases(), note)


def _examined(
    table: AddressedTable, size: tuple[int, ...], labels: Int64[Tensor, "graphs n"], every: bool, generator: Generator
) -> tuple[int, Memory, str]:
    """Write, round and read; check the width, ``b`` bits, independence of source order, and every label.

    If ``every`` graph has other labels than the rest, memories must differ, too.
    """
    source, target = both_sides(labels, generator)
    memory = table.write(source)
    rounded, fault = memory.round(), ""
    if memory.shape[2] != construction_width(*size):
        fault = "not the width of eq:upper"
    elif rounded.min() < 0 or rounded.max() >= 1 << table.bits:
        fault = "a coordinate does not fit b bits"
    elif (table.write(source.shuffled(generator)).round() != rounded).any():
        fault = "the memory depends on source order"
    elif wrong := int((table.read(rounded.long(), target) != target.label).sum()):
        fault = f"{wrong} of {len(target.label)} targets wrong"
    elif every and len(torch.unique(rounded.flatten(1), dim=0)) != len(labels):
        fault = "two instances share a memory"
    sizes = ", ".join(f"{name}={value}" for name, value in zip("nMbC", size, strict=False))
    return len(labels), memory, f"{sizes}, d={memory.shape[2]}: {fault}" if fault else ""
