"""Two-Radius with counts, cor:countedwl: 1-WL solves it, no normalised read can, hand-set anchored slots do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from mooring.ops import SlotState, read, write
from mooring.theory.claim import Evidence
from mooring.theory.construction import Partition, node_key, sign_code, slot_query
from mooring.theory.instances import Instances, every_counted, sampled_counted
from mooring.theory.multiset import refine, with_unit_anchor

Answer = tuple[Int64[Tensor, " nodes"], Int64[Tensor, " nodes"]]
"""Label and count of every target."""


@dataclass(frozen=True)
class CountedTable:
    """Hand-set anchored slots: source (i, pi(i)) is the slot-local colour (r(i), pi(i)) of slot g(i).

    Scores are 0 inside a slot's group, and weights are exactly 0 outside it. The anchor has logit 0 and value 1 in
    coordinate 0, which no node uses. So coordinate 0 is ``1 / (1 + |X_m|)`` and colour c is ``count_c / (1 + |X_m|)``.
    After the read, a target divides each colour by coordinate 0, which gives the count of each label.

    Paper: cor:countedwl, part 3.

    Args:
        n: identifiers and labels.
        slots: groups M.
        keep_mass: whether the anchor is inside the softmax; otherwise slots contain proportions.
    """

    n: int
    slots: int
    keep_mass: bool = True

    @property
    def partition(self) -> Partition:
        return Partition(self.n, self.slots)

    def write(self, source: Instances, *, as_weight: bool) -> Float64[Tensor, "graphs slots dim"]:
        """Return the memory of each graph; copies are separate nodes, or one node with a log weight."""
        nodes = source if as_weight else source.copied()
        state = self.state(nodes, nodes.count.double().log() if as_weight else None)
        return with_unit_anchor(state) if self.keep_mass else state.content[:, :, 0]

    def state(self, nodes: Instances, log_weight: Float64[Tensor, " nodes"] | None = None) -> SlotState:
        """Return the state of the slots before any anchor."""
        color = self.partition.position(nodes.identifier) * self.n + nodes.label
        value = torch.nn.functional.one_hot(color + 1, self.partition.capacity * self.n + 1).double()
        return write(
            slot_query(sign_code(torch.arange(self.slots), self.slots)),
            node_key(sign_code(self.partition.group(nodes.identifier), self.slots)),
            value.unsqueeze(1),
            nodes.graph,
            num_graphs=nodes.num_graphs,
            log_weight=log_weight,
        )

    def counts(self, memory: Float64[Tensor, "graphs slots dim"], target: Instances) -> Float64[Tensor, "nodes n"]:
        """Count each label with each target's identifier, before rounding."""
        context = read(
            node_key(sign_code(self.partition.group(target.identifier), self.slots)),
            slot_query(sign_code(torch.arange(self.slots), self.slots)),
            memory.unsqueeze(2),
            target.graph,
        )[:, 0]
        blocks = context[:, 1:].view(len(context), self.partition.capacity, self.n)
        block = blocks[torch.arange(len(context)), self.partition.position(target.identifier)]
        return block / context[:, :1] if self.keep_mass else block


def answer(counts: Float64[Tensor, "nodes n"]) -> Answer:
    """Return label and multiplicity from the counts of a target's identifier."""
    most = counts.max(dim=1)
    return most.indices, most.values.round().long()


Build = Callable[[int, int], CountedTable]

ENUMERATED = ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 3))
PAPER_SIZES = ((12, 12), (12, 4), (12, 5), (12, 1))
# Base counts 1..4 at scales 1, 2 and 3, as in tab:counted.
MAX_COUNT, SCALES = 4, 3


def check_slots(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Check that all counted instances of up to 4 identifiers, and random ones of the size of tab:counted, are
    solved.
    """
    examined, worst = 0, 0.0
    for n, slots in (*ENUMERATED, *PAPER_SIZES):
        table = build(n, slots)
        source = every_counted(n, MAX_COUNT, SCALES, generator) if n <= 4 else None
        for scale in range(1, SCALES + 1) if source is None else (1,):
            nodes = source or sampled_counted(n, MAX_COUNT, instances, generator).scaled(scale)
            target = nodes.shuffled(generator)
            examined += nodes.num_graphs
            for as_weight in (True, False):
                counts = table.counts(table.write(nodes, as_weight=as_weight), target)
                label, count = answer(counts)
                worst = max(worst, float((counts - counts.round()).abs().max()))
                wrong = ((label != target.label) | (count != target.count)).sum()
                if wrong:
                    note = f"n={n}, M={slots}: {int(wrong)} of {len(label)} targets wrong"
                    return Evidence(False, 0.5 - worst, examined, note)
    note = f"every instance for n<=4 and random ones at n=12 solved; counts within {worst:.1e} of integers"
    return Evidence(True, 0.5 - worst, examined, note)


Memory = Callable[[CountedTable, Instances], Float64[Tensor, "graphs slots dim"]]


def normalised_memory(table: CountedTable, source: Instances) -> Float64[Tensor, "graphs slots dim"]:
    """Return the memory of a normalised write by the sources alone."""
    return table.state(source.copied()).content[:, :, 0]


def anchored_memory(table: CountedTable, source: Instances) -> Float64[Tensor, "graphs slots dim"]:
    """Return the memory of an anchored write."""
    return table.write(source, as_weight=False)


def check_normalised(memory: Memory, instances: int, generator: torch.Generator) -> Evidence:
    """Check that (pi, c) and (pi, rc) have equal memories, although every target's answer differs."""
    worst = 0.0
    for factor in range(2, 6):
        source = sampled_counted(7, 4, instances, generator)
        table = CountedTable(n=7, slots=3)
        change = memory(table, source.scaled(factor)) - memory(table, source)
        worst = max(worst, float(change.abs().max()))
    note = f"memories of (pi, c) and (pi, rc) differ by at most {worst:.1e} while all counts differ"
    return Evidence(worst < 1e-11, worst, 4 * instances, note)


def check_wl(rounds: int, instances: int, generator: torch.Generator) -> Evidence:
    """Check that after ``rounds`` refinements of all instances at once, a target's colour determines its answer."""
    small = every_counted(3, 2, 2, generator)
    large = sampled_counted(5, 3, instances, generator)
    examined, conflicts = 0, 0
    for source in (small, large):
        copies = source.copied()
        colors: list[tuple[str, int, int]] = [
            ("source", int(i), int(label)) for i, label in zip(copies.identifier, copies.label, strict=True)
        ]
        centre = len(colors)
        colors += [("centre", 0, 0)] * source.num_graphs
        first_target = len(colors)
        colors += [("target", int(i), 0) for i in source.identifier]
        edges = [(node, centre + int(graph)) for node, graph in enumerate(copies.graph)]
        edges += [(centre + int(graph), first_target + node) for node, graph in enumerate(source.graph)]
        refined: list[int] = refine(colors, edges)
        for _ in range(rounds - 1):
            refined = refine(refined, edges)
        meaning: dict[int, tuple[int, int]] = {}
        for color, label, count in zip(refined[first_target:], source.label, source.count, strict=True):
            expected = (int(label), int(count))
            conflicts += meaning.setdefault(color, expected) != expected
        examined += source.num_graphs
    note = f"{conflicts} targets share a colour with a target of another answer"
    return Evidence(conflicts == 0, float(conflicts), examined, note)
