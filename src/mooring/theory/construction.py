"""thm:upper: an addressable table of M slots, as hand-set queries, keys and values of the real write and read.

The public partition of identifiers into groups and the sign codes that address the groups serve cor:countedwl too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from mooring.ops import read, write
from mooring.theory.capacity import construction_width, label_digits, required_bits
from mooring.theory.claim import Evidence
from mooring.theory.instances import Instances, every_permutation, sampled_permutations

# Half the smallest gap between a matching and a mismatched logit: exp(-2000) is exactly 0 in float64, so a softmax
# over such logits is a hard selection and the proofs' disjoint blocks stay disjoint to the last bit.
SHARPNESS = 1000.0


@dataclass(frozen=True)
class Partition:
    """Balanced groups ``I_1..I_M`` of ``range(n)``: identifier i is number ``r(i)`` of group ``g(i)``.

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
                f"Partition: slots={self.slots} for n={self.n} identifiers, but groups may not be empty. "
                "Use between 1 and n slots."
            )

    def group(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier % self.slots

    def position(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier // self.slots

    @property
    def capacity(self) -> int:
        """``ceil(n / M)``, the blocks of one slot."""
        return -(-self.n // self.slots)

    @property
    def sizes(self) -> Int64[Tensor, " slots"]:
        return torch.bincount(torch.arange(self.n) % self.slots, minlength=self.slots)


def sign_code(number: Int64[Tensor, " count"], total: int) -> Float64[Tensor, "count dim"]:
    """The binary digits of each number as +-1, in ``max(1, ceil(log2 total))`` dimensions.

    Two different codes disagree somewhere, so their product is at most ``dim - 2``.
    """
    dim = max(1, (total - 1).bit_length())
    return ((number.unsqueeze(1) >> torch.arange(dim)) & 1).double() * 2 - 1


def slot_query(code: Float64[Tensor, "slots dim"]) -> Float64[Tensor, "slots 1 extended"]:
    """Queries whose score is 0 on the key of their own code and at most ``-2 SHARPNESS`` on any other."""
    offset = -code.square().sum(dim=1, keepdim=True)
    return (SHARPNESS * torch.cat([code, offset], dim=1)).unsqueeze(1)


def node_key(code: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes 1 extended"]:
    """Keys for :func:`slot_query`. A read uses them as queries and the slots' as keys, with the same scores."""
    return torch.cat([code, torch.ones(len(code), 1, dtype=code.dtype)], dim=1).unsqueeze(1)


AddressCode = Callable[[Int64[Tensor, " count"], int], Float64[Tensor, "count dim"]]


def same_code(number: Int64[Tensor, " count"], total: int) -> Float64[Tensor, "count dim"]:
    """One address for everything: what a homogeneous virtual node offers."""
    return torch.ones_like(sign_code(number, total))


@dataclass(frozen=True)
class AddressedTable:
    """Maps source (identifier, label) pairs to slots of b-bit integers, and those to every target's label.

    Slot m holds its own number, then one block of label digits for each identifier of its group. The write is a
    softmax over nodes, so a slot's content is the mean over its group; multiplying by the group's size, which is
    public, gives the sum.

    Paper: thm:upper, eq:upper.

    Args:
        n: identifiers and labels.
        slots: groups M.
        bits: bits b of a coordinate.
        code: the address of each group.
    """

    n: int
    slots: int
    bits: int
    code: AddressCode = sign_code

    @property
    def partition(self) -> Partition:
        return Partition(self.n, self.slots)

    @property
    def width(self) -> int:
        """Coordinates of one slot: eq:upper with its O(1) equal to 0."""
        return construction_width(self.n, self.slots, self.bits)

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        """The memory before rounding; every coordinate is within rounding error of an integer below ``2^b``.

        Args:
            source: the nodes that write, each identifier at most once per graph.
            members: how many identifiers of each group write; all of them if None.
        """
        partition, digits = self.partition, label_digits(self.n, self.bits)
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
        """The label every target recovers from the memory of its graph and its own identifier."""
        partition, digits = self.partition, label_digits(self.n, self.bits)
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
    """Serves every target, but adds ``2^b`` to every payload."""

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        memory = super().write(source, members)
        memory[:, :, label_digits(self.slots, self.bits) :] += 1 << self.bits
        return memory

    def read(self, memory: Int64[Tensor, "graphs slots width"], target: Instances) -> Int64[Tensor, " nodes"]:
        return super().read(memory & ((1 << self.bits) - 1), target)


class OrderedTable(AddressedTable):
    """Serves every target, but the slot that comes first depends on the source that comes first."""

    def write(
        self, source: Instances, members: Int64[Tensor, " slots"] | None = None
    ) -> Float64[Tensor, "graphs slots width"]:
        # A slot holds its own number, so targets find it wherever it stands.
        return super().write(source, members).roll(int(source.identifier[0]), dims=1)


class PaddedTable(AddressedTable):
    """Serves every target, but each slot has one coordinate more than eq:upper."""

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
    """Every permutation of small sets, and ``instances`` random ones of each larger set, are recovered in full."""
    examined, worst, distinct, overhead = 0, 0.0, 0, 0.0
    for n, slots, bits in (*ENUMERATED, *SAMPLED):
        table = build(n, slots, bits)
        enumerated = (n, slots, bits) in ENUMERATED
        source, target = (
            every_permutation(n, generator) if enumerated else sampled_permutations(n, instances, generator)
        )
        memory = table.write(source)
        width = memory.shape[2]
        rounded = memory.round()
        worst = max(worst, float((memory - rounded).abs().max()))
        examined += source.num_graphs
        where = f"n={n}, M={slots}, b={bits}, d={width}"
        if width != construction_width(n, slots, bits):
            return Evidence(False, 0.5 - worst, examined, f"{where}: not the width of eq:upper")
        if rounded.min() < 0 or rounded.max() >= 1 << bits:
            return Evidence(False, 0.5 - worst, examined, f"{where}: a coordinate does not fit b bits")
        if (table.write(source.shuffled(generator)).round() != rounded).any():
            return Evidence(False, 0.5 - worst, examined, f"{where}: the memory depends on source order")
        wrong = (table.read(rounded.long(), target) != target.label).sum()
        if wrong:
            return Evidence(False, 0.5 - worst, examined, f"{where}: {int(wrong)} of {len(target.label)} targets wrong")
        if enumerated:
            memories = len(torch.unique(rounded.flatten(1), dim=0))
            if memories != source.num_graphs:
                return Evidence(False, 0.5 - worst, examined, f"{where}: two permutations share a memory")
            distinct += memories
        overhead = slots * width * bits / required_bits(n)
    note = f"all n! for n<=7 ({distinct} distinct memories), random ones to n=1000 in {overhead:.2f} log2 n! bits"
    return Evidence(True, 0.5 - worst, examined, note)
