"""The hand-set SlotVirtualNode on the same batches that models are trained on: labels, and labels with counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from mooring.suite.two_radius.data import CountedTask, PermutationTask
from mooring.theory.bounds import label_digits
from mooring.theory.claim import Claim, Evidence
from mooring.theory.handset import HandSetMemory
from mooring.theory.partition import Partition

Build = Callable[[Partition, int], HandSetMemory]

LABELLED = ((7, 3, 1), (12, 4, 2), (53, 8, 8), (211, 16, 8))
COUNTED = ((12, 12), (12, 5), (12, 4), (7, 1))


def check_labels(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Every target of random permutation-valued batches recovers its label from b-bit digits in a slot."""
    examined, worst = 0, 0.0
    for n, slots, bits in LABELLED:
        memory = build(Partition(n, slots), label_digits(n, bits))
        batch = PermutationTask(n).batch(instances, _numpy(generator))
        shifts = torch.arange(memory.block) * bits
        digits = ((batch.label.unsqueeze(1) >> shifts) & ((1 << bits) - 1)).double()
        # A slot averages over its group, whose size is public.
        size = memory.partition.sizes[memory.partition.group(batch.identifier)]
        found, _ = memory.recall(memory.build(), batch, digits * size.unsqueeze(1))
        examined += batch.num_graphs
        worst = max(worst, float((found - found.round()).abs().max()))
        wrong = ((found.round().long() << shifts).sum(dim=1) != batch.y_label).sum()
        if wrong:
            note = f"n={n}, M={slots}, b={bits}: {int(wrong)} of {len(found)} targets wrong"
            return Evidence(False, 0.5 - worst, examined, note)
    note = f"n to {LABELLED[-1][0]}; digits within {worst:.1e} of integers after two LayerNorms"
    return Evidence(True, 0.5 - worst, examined, note)


def check_counts(build: Build, instances: int, generator: torch.Generator) -> Evidence:
    """Every target of random counted batches, all scales, recovers label and count."""
    examined, worst = 0, 0.0
    for n, slots in COUNTED:
        memory = build(Partition(n, slots), n)
        batch = CountedTask(n).batch(instances, _numpy(generator))
        colors = torch.nn.functional.one_hot(batch.label.clamp(max=n - 1), n).double()
        found, mass = memory.recall(memory.build(), batch, colors)
        counts = found * mass.unsqueeze(1)
        most = counts.max(dim=1)
        examined += batch.num_graphs
        worst = max(worst, float((counts - counts.round()).abs().max()))
        wrong = ((most.indices != batch.y_label) | (most.values.round() != batch.y_count)).sum()
        if wrong:
            note = f"n={n}, M={slots}: {int(wrong)} of {len(found)} targets wrong"
            return Evidence(False, 0.5 - worst, examined, note)
    return Evidence(True, 0.5 - worst, examined, f"counts within {worst:.1e} of integers after two LayerNorms")


def _numpy(generator: torch.Generator) -> np.random.Generator:
    return np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="thm:upper.module",
        statement="A SlotVirtualNode with the construction's weights, no training, solves permutation Two-Radius.",
        check=check_labels,
        subject=lambda partition, block: HandSetMemory(partition, block, anchored=False),
        control=lambda partition, block: HandSetMemory(partition, block, anchored=False, addressed=False),
        control_means="premise removed: all slots share one address, so every target reads the same mean",
        margin_means="0.5 minus the furthest any recovered digit was from its integer",
        instances=32,
    ),
    Claim(
        label="cor:countedwl.module",
        statement="An anchored SlotVirtualNode with the proof's weights, no training, solves counted Two-Radius.",
        check=check_counts,
        subject=lambda partition, block: HandSetMemory(partition, block, anchored=True),
        control=lambda partition, block: HandSetMemory(partition, block, anchored=False),
        control_means="premise removed: the Cross-Attn virtual node, the same weights without anchors",
        margin_means="0.5 minus the furthest any recovered count was from its integer",
        instances=64,
    ),
)
