"""Hand-set weights of the proofs, without training: a counted table on the ops, and a memory in a SlotVirtualNode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float64
from torch import Generator, Tensor, nn

from mooring.nn import SlotVirtualNode
from mooring.ops import SlotState, read, write
from mooring.theory.capacity import label_digits
from mooring.theory.claim import Evidence, claim, judge_integers
from mooring.theory.construction import Partition
from mooring.theory.instances import Instances, benchmark_batch, every_counted, sampled_counted
from mooring.theory.multiset import with_unit_anchor


@dataclass(frozen=True)
class CountedTable:
    """Anchored slots: source (i, pi(i)) is the slot-local colour (r(i), pi(i)) of slot g(i).

    Scores are 0 inside a slot's group, and weights are exactly 0 outside it. The anchor has logit 0 and value 1 in
    coordinate 0, which no node uses. So coordinate 0 is ``1 / (1 + |X_m|)`` and colour c is ``count_c / (1 + |X_m|)``.
    After the read, a target divides each colour by coordinate 0, which gives the count of each label. Without
    ``keep_mass`` no anchor is inside the softmax, and slots contain proportions.

    Paper: cor:countedwl, part 3.
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
            self.partition.query(),
            self.partition.key(nodes.identifier),
            value.unsqueeze(1),
            nodes.graph,
            num_graphs=nodes.num_graphs,
            log_weight=log_weight,
        )

    def counts(self, memory: Float64[Tensor, "graphs slots dim"], target: Instances) -> Float64[Tensor, "nodes n"]:
        """Count each label with each target's identifier, before rounding."""
        key, query = self.partition.query(), self.partition.key(target.identifier)
        context = read(query, key, memory.unsqueeze(2), target.graph)[:, 0]
        counts = self.partition.pick(context[:, 1:], target.identifier)
        return counts / context[:, :1] if self.keep_mass else counts


# Base counts 1..4 at scales 1, 2 and 3, as in tab:counted.
MAX_COUNT, SCALES = 4, (1, 2, 3)


@claim(
    "cor:countedwl.normalised",
    "A normalised read cannot tell (pi, c) from (pi, rc).",
    subject=lambda table, source: table.state(source.copied()).content[:, :, 0],
    controls={
        "premise removed: the anchored write of the same slots": lambda table, source: table.write(
            source, as_weight=False
        )
    },
    margin_means="largest difference between the two memories; rounding allows 1e-11",
    instances=40,
)
def scale_blindness(
    memory: Callable[[CountedTable, Instances], Tensor], instances: int, generator: Generator
) -> Evidence:
    """Check that (pi, c) and (pi, rc) have equal memories, although every target's answer differs."""
    worst = 0.0
    for factor in range(2, 6):
        source = sampled_counted(7, 4, instances, generator)
        table = CountedTable(n=7, slots=3)
        change = memory(table, source.scaled(factor)) - memory(table, source)
        worst = max(worst, float(change.abs().max()))
    note = f"memories of (pi, c) and (pi, rc) differ by at most {worst:.1e} while all counts differ"
    return Evidence(worst < 1e-11, worst, 4 * instances, note)


@claim(
    "cor:countedwl.slots",
    "Hand-set anchored slots solve every counted Two-Radius instance exactly, without training.",
    subject=CountedTable,
    controls={"premise removed: the same slots without their anchors": lambda n, slots: CountedTable(n, slots, False)},
    margin_means="0.5 minus the furthest any decoded count was from its integer",
    instances=60,
)
def counted_table(build: Callable[[int, int], CountedTable], instances: int, generator: Generator) -> Evidence:
    """Check all counted instances of up to 4 identifiers, and random ones of tab:counted's size."""

    def cases() -> Iterator[tuple[int, Tensor, str]]:
        for n, slots in ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 3), (12, 12), (12, 4), (12, 5), (12, 1)):
            table = build(n, slots)
            every = [every_counted(n, MAX_COUNT, len(SCALES), generator)] if n <= 4 else None
            drawn = (sampled_counted(n, MAX_COUNT, instances, generator).scaled(scale) for scale in SCALES)
            for nodes in every or drawn:
                target = nodes.shuffled(generator)
                for as_weight in (True, False):
                    counts = table.counts(table.write(nodes, as_weight=as_weight), target)
                    fault = _fault(f"n={n}, M={slots}", wrong_answers(counts, target))
                    yield nodes.num_graphs * as_weight, counts, fault

    note = "every instance for n<=4 and random ones at n=12 solved; counts within {:.1e} of integers"
    return judge_integers(cases(), note)


def wrong_answers(counts: Float64[Tensor, "nodes n"], target: Instances) -> Bool[Tensor, " nodes"]:
    """Return the targets whose label and count are not those of the largest of its counts."""
    most = counts.max(dim=1)
    return (most.indices != target.label) | (most.values.round() != target.count)


def _fault(sizes: str, wrong: Bool[Tensor, " nodes"]) -> str:
    return f"{sizes}: {int(wrong.sum())} of {len(wrong)} targets wrong" if wrong.any() else ""


@dataclass(frozen=True)
class HandSetMemory:
    """SlotVirtualNode whose weights copy payloads to the slots and back, with the addresses of its calls.

    Node features are ``[payload, 1, 0, 0]``. The slots' LayerNorms turn content into ``scale * content + shift``; the
    coordinates 1 and 0 reveal scale and shift, so a target can undo them. The last coordinate receives the mass.
    The mass MLP passes its input through, since ``gelu(x) - gelu(-x) = x``.

    Paper: thm:upper, cor:countedwl. Departs: two reference coordinates, part of the O(1) of eq:upper, pay for the
    LayerNorms; the address lies in the module's address table, not in the slot's content.

    Args:
        partition: map from identifiers to slots and blocks.
        block: payload coordinates of one identifier.
        anchored: whether slots have anchors and a mass channel; False builds the Cross-Attn virtual node.
        addressed: whether slots have different addresses; False makes the memory homogeneous.
    """

    partition: Partition
    block: int
    anchored: bool
    addressed: bool = True

    @property
    def payload(self) -> int:
        return self.partition.capacity * self.block

    @property
    def channels(self) -> int:
        """Width of a state: payload, two references and the mass, or the address if the address is wider."""
        return max(self.payload + 3, self.address_channels)

    @property
    def address_channels(self) -> int:
        return self.partition.query().shape[2]

    def build(self) -> SlotVirtualNode:
        """Return the module, in float64, untrained."""
        width = self.address_channels
        module = SlotVirtualNode(
            self.channels,
            self.partition.slots,
            heads=1,
            anchored=self.anchored,
            address_channels=width,
            integrate="residual",
        ).double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
            addresses, update = module.write.addresses, module.update
            assert addresses is not None
            assert module.read is not None
            # The module divides scores by the square root of the head width.
            addresses.slot[:, :, :width] = self.partition.query() * self.channels**0.5 if self.addressed else 0.0
            addresses.weight[0, :width] = torch.eye(width)
            for linear in (module.write.lin_value, update.lin_out, module.read.lin_value, module.read.lin_out):
                nn.init.eye_(linear.weight)
            for norm in (update.norm_in, update.norm_out):
                norm.weight.fill_(1.0)
            module.integrate.gain.fill_(1.0)
            if self.anchored:
                assert isinstance(update.mass_mlp, nn.Sequential)
                up, down = update.mass_mlp[0], update.mass_mlp[2]
                assert isinstance(up, nn.Linear)
                assert isinstance(down, nn.Linear)
                up.weight[:2, 0] = torch.tensor([1.0, -1.0])
                down.weight[self.payload + 2, :2] = torch.tensor([1.0, -1.0])
        return module.requires_grad_(False)

    def features(self, source: Instances, payload: Float64[Tensor, "nodes block"]) -> Float64[Tensor, "nodes dim"]:
        """Return source features ``[payload, 1, 0, 0]``, with each payload in the block of its identifier."""
        features = torch.zeros(len(payload), self.channels, dtype=torch.float64)
        features[:, : self.payload] = self.partition.place(payload, source.identifier)
        features[:, self.payload] = 1.0
        return features

    def recall(
        self,
        source: Instances,
        target: Instances,
        payload: Float64[Tensor, "sources block"],
        log_weight: Float64[Tensor, " sources"] | None = None,
    ) -> tuple[Float64[Tensor, "targets block"], Float64[Tensor, " targets"]]:
        """Return the content that each target reads from its block, and the mass of its slot (zero without anchors).

        Each source writes its payload ``exp(log_weight)`` times, once if it is None. Features of targets are zero.
        """
        writes = torch.arange(len(source.graph) + len(target.graph)) < len(source.graph)
        silent = torch.zeros(len(target.graph), self.channels, dtype=torch.float64)
        weight = torch.zeros(len(source.graph), dtype=torch.float64) if log_weight is None else log_weight
        output = self.build()(
            torch.cat([self.features(source, payload), silent]),
            torch.cat([source.graph, target.graph]),
            address=self.partition.key(torch.cat([source.identifier, target.identifier]))[:, 0],
            sources=writes,
            targets=~writes,
            log_weight=torch.cat([weight, silent[:, 0]]),
            num_graphs=source.num_graphs,
        )
        assert isinstance(output, Tensor)
        answers = output[len(source.graph) :]
        unit, zero, mass = answers[:, self.payload : self.payload + 3].T
        content = (answers[:, : self.payload] - zero.unsqueeze(1)) / (unit - zero).unsqueeze(1)
        return self.partition.pick(content, target.identifier), (mass - zero).expm1()


@claim(
    "thm:upper.module",
    "A SlotVirtualNode with the construction's weights, no training, solves permutation Two-Radius.",
    subject=partial(HandSetMemory, anchored=False),
    controls={
        "premise removed: all slots share one address, so every target reads the same mean": partial(
            HandSetMemory, anchored=False, addressed=False
        )
    },
    margin_means="0.5 minus the furthest any recovered digit was from its integer",
    instances=32,
)
def recalled_labels(build: Callable[[Partition, int], HandSetMemory], instances: int, generator: Generator) -> Evidence:
    """Check that every target of random permutation batches recovers its label from b-bit digits in a slot."""

    def cases() -> Iterator[tuple[int, Tensor, str]]:
        for n, slots, bits in ((7, 3, 1), (12, 4, 2), (53, 8, 8), (211, 16, 8)):
            memory = build(Partition(n, slots), label_digits(n, bits))
            source, target = benchmark_batch(n, instances, generator)
            shifts = torch.arange(memory.block) * bits
            digits = ((source.label.unsqueeze(1) >> shifts) & ((1 << bits) - 1)).double()
            # A slot averages over its group, whose size is public.
            size = memory.partition.sizes[memory.partition.group(source.identifier)]
            recalled, _ = memory.recall(source, target, digits * size.unsqueeze(1))
            wrong = (recalled.round().long() << shifts).sum(dim=1) != target.label
            yield source.num_graphs, recalled, _fault(f"n={n}, M={slots}, b={bits}", wrong)

    return judge_integers(cases(), "n to 211; digits within {:.1e} of integers after two LayerNorms")


COUNT_SIZES = ((12, 12), (12, 5), (12, 4), (7, 1))


@claim(
    "cor:countedwl.module",
    "An anchored SlotVirtualNode with the proof's weights, no training, solves counted Two-Radius.",
    subject=partial(HandSetMemory, anchored=True),
    controls={
        "premise removed: the Cross-Attn virtual node, the same weights without anchors": partial(
            HandSetMemory, anchored=False
        )
    },
    margin_means="0.5 minus the furthest any recovered count was from its integer",
    instances=64,
)
def recalled_counts(build: Callable[[Partition, int], HandSetMemory], instances: int, generator: Generator) -> Evidence:
    """Check that every target of random counted batches, at all scales, recovers label and count."""

    def cases() -> Iterator[tuple[int, Tensor, str]]:
        for n, slots in COUNT_SIZES:
            memory = build(Partition(n, slots), n)
            source, target = benchmark_batch(n, instances, generator, max_count=MAX_COUNT, scales=SCALES)
            colors = torch.nn.functional.one_hot(source.label, n).double()
            recalled, mass = memory.recall(source, target, colors)
            counts = recalled * mass.unsqueeze(1)
            yield source.num_graphs, counts, _fault(f"n={n}, M={slots}", wrong_answers(counts, target))

    return judge_integers(cases(), "counts within {:.1e} of integers after two LayerNorms")
