"""Proof weights inside a real SlotVirtualNode, without training: thm:upper.module and cor:countedwl.module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from mooring.nn import SlotVirtualNode
from mooring.theory.capacity import label_digits
from mooring.theory.claim import Evidence
from mooring.theory.construction import Partition, node_key, sign_code, slot_query
from mooring.theory.instances import Instances, benchmark_batch


@dataclass(frozen=True)
class HandSetMemory:
    """SlotVirtualNode whose weights copy payloads to the slots and back, with the addresses of its calls.

    Node features are ``[payload, 1, 0, 0]``. The slots' LayerNorms turn content into ``scale * content + shift``; the
    coordinates 1 and 0 reveal scale and shift, so a target can undo them. The last coordinate receives the mass.
    The mass MLP passes its input through, since ``gelu(x) - gelu(-x) = x``.

    Paper: the constructions of thm:upper and cor:countedwl. Departs: two reference coordinates, part of the O(1) of
    eq:upper, pay for the LayerNorms; the address lies in the module's address table, not in the slot's content.

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
        return max(self.payload + 3, self._code(torch.arange(1)).shape[1])

    def build(self) -> SlotVirtualNode:
        """Return the module, in float64, untrained."""
        slots = self.partition.slots
        code = self._code(torch.arange(slots))
        module = SlotVirtualNode(
            self.channels,
            slots,
            heads=1,
            anchored=self.anchored,
            address_channels=code.shape[1],
            integrate="residual",
        ).double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
            addresses, update = module.write.addresses, module.update
            assert addresses is not None
            assert module.read is not None
            query = slot_query(sign_code(torch.arange(slots), slots))
            # The module divides scores by the square root of the head width.
            addresses.slot[:, :, : code.shape[1]] = query * self.channels**0.5 if self.addressed else 0.0
            addresses.weight[0, : code.shape[1]] = torch.eye(code.shape[1])
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
        nodes = torch.arange(len(payload))
        blocks = torch.zeros(len(nodes), self.partition.capacity, self.block, dtype=torch.float64)
        blocks[nodes, self.partition.position(source.identifier)] = payload
        features = torch.zeros(len(nodes), self.channels, dtype=torch.float64)
        features[:, : self.payload] = blocks.flatten(1)
        features[:, self.payload] = 1.0
        return features

    def recall(
        self,
        module: SlotVirtualNode,
        source: Instances,
        target: Instances,
        payload: Float64[Tensor, "sources block"],
        log_weight: Float64[Tensor, " sources"] | None = None,
    ) -> tuple[Float64[Tensor, "targets block"], Float64[Tensor, " targets"]]:
        """Return the content that each target reads from its block, and the mass of its slot (zero without anchors).

        Args:
            module: the module from :meth:`build`.
            source: the nodes that write.
            target: the nodes that read; their features are zero.
            payload: content that each source writes.
            log_weight: logarithm of the number of copies of each source; one each if None.
        """
        writes = torch.arange(len(source.graph) + len(target.graph)) < len(source.graph)
        silent = torch.zeros(len(target.graph), self.channels, dtype=torch.float64)
        weight = torch.zeros(len(source.graph), dtype=torch.float64) if log_weight is None else log_weight
        output = module(
            torch.cat([self.features(source, payload), silent]),
            torch.cat([source.graph, target.graph]),
            address=self._code(self.partition.group(torch.cat([source.identifier, target.identifier]))),
            sources=writes,
            targets=~writes,
            log_weight=torch.cat([weight, silent[:, 0]]),
            num_graphs=source.num_graphs,
        )
        assert isinstance(output, Tensor)
        answers = output[len(source.graph) :]
        unit, zero, mass = answers[:, self.payload : self.payload + 3].T
        content = (answers[:, : self.payload] - zero.unsqueeze(1)) / (unit - zero).unsqueeze(1)
        blocks = content.view(len(answers), self.partition.capacity, self.block)
        return blocks[torch.arange(len(answers)), self.partition.position(target.identifier)], (mass - zero).expm1()

    def _code(self, group: Int64[Tensor, " count"]) -> Float64[Tensor, "count dim"]:
        return node_key(sign_code(group, self.partition.slots))[:, 0]


Build = Callable[[Partition, int], HandSetMemory]

LABEL_SIZES = ((7, 3, 1), (12, 4, 2), (53, 8, 8), (211, 16, 8))
COUNT_SIZES = ((12, 12), (12, 5), (12, 4), (7, 1))


def check_labels(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Check that every target of random permutation batches recovers its label from b-bit digits in a slot."""
    examined, worst = 0, 0.0
    for n, slots, bits in LABEL_SIZES:
        memory = build(Partition(n, slots), label_digits(n, bits))
        source, target = benchmark_batch(n, instances, generator)
        shifts = torch.arange(memory.block) * bits
        digits = ((source.label.unsqueeze(1) >> shifts) & ((1 << bits) - 1)).double()
        # A slot averages over its group, whose size is public.
        size = memory.partition.sizes[memory.partition.group(source.identifier)]
        recalled, _ = memory.recall(memory.build(), source, target, digits * size.unsqueeze(1))
        examined += source.num_graphs
        worst = max(worst, float((recalled - recalled.round()).abs().max()))
        wrong = ((recalled.round().long() << shifts).sum(dim=1) != target.label).sum()
        if wrong:
            note = f"n={n}, M={slots}, b={bits}: {int(wrong)} of {len(recalled)} targets wrong"
            return Evidence(False, 0.5 - worst, examined, note)
    note = f"n to {LABEL_SIZES[-1][0]}; digits within {worst:.1e} of integers after two LayerNorms"
    return Evidence(True, 0.5 - worst, examined, note)


def check_counts(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Check that every target of random counted batches, at all scales, recovers label and count."""
    examined, worst = 0, 0.0
    for n, slots in COUNT_SIZES:
        memory = build(Partition(n, slots), n)
        source, target = benchmark_batch(n, instances, generator, max_count=4, scales=(1, 2, 3))
        colors = torch.nn.functional.one_hot(source.label, n).double()
        recalled, mass = memory.recall(memory.build(), source, target, colors)
        counts = recalled * mass.unsqueeze(1)
        most = counts.max(dim=1)
        examined += source.num_graphs
        worst = max(worst, float((counts - counts.round()).abs().max()))
        wrong = ((most.indices != target.label) | (most.values.round() != target.count)).sum()
        if wrong:
            note = f"n={n}, M={slots}: {int(wrong)} of {len(recalled)} targets wrong"
            return Evidence(False, 0.5 - worst, examined, note)
    return Evidence(True, 0.5 - worst, examined, f"counts within {worst:.1e} of integers after two LayerNorms")
