"""Normalised attention cannot see uniform replication: one read, and any stack of reads and local layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.ops import SlotState, anchored, read, write
from mooring.theory.claim import Claim, Evidence
from mooring.theory.series import Series

# Sums over r times as many nodes are rounded differently; nothing else may differ.
ROUNDING = 1e-11

Summary = Callable[[SlotState], Float64[Tensor, "graphs slots heads dim"]]


def normalised(state: SlotState) -> Float64[Tensor, "graphs slots heads dim"]:
    """Standard attention: the content, without its mass. Paper: eq:standardatt."""
    return state.content


def with_anchor(state: SlotState) -> Float64[Tensor, "graphs slots heads dim"]:
    """Attention with a private anchor of logit 0 and value 0 inside the softmax. Paper: eq:anchored."""
    slots, heads, dim = state.content.shape[1:]
    return anchored(state, state.content.new_zeros(slots, heads), state.content.new_zeros(slots, heads, dim))


def check_replication(summary: Summary, instances: int, generator: torch.Generator) -> Evidence:
    """``Att(q, rX) = Att(q, X)`` for random sets, slots, heads and r, with copies written out and as a log weight."""
    worst, note = 0.0, ""
    for _ in range(instances):
        nodes, slots, heads, factor = (int(torch.randint(1, 12, (), generator=generator)) for _ in range(4))
        factor += 1
        scale = 10 ** float(torch.rand((), generator=generator) * 2 - 1)
        query = _normal(generator, slots, heads, 7) * scale
        key, value = _normal(generator, nodes, heads, 7), _normal(generator, nodes, heads, 5)
        order = torch.randperm(nodes * factor, generator=generator) % nodes
        once = summary(write(query, key, value))
        copies = summary(write(query, key[order], value[order]))
        weighted = summary(write(query, key, value, log_weight=torch.full((nodes,), math.log(factor)).double()))
        change = max(float((copies - once).abs().max()), float((weighted - once).abs().max()))
        if change >= worst:
            worst, note = change, f"largest change {change:.1e}, at {nodes} nodes repeated {factor} times"
    return Evidence(worst <= ROUNDING, worst, instances, note)


@dataclass(frozen=True)
class Stack:
    """Random layers over a source-centre-target graph: a mean over sources, a slot memory, a shared node update.

    Sources and targets read the slots of the layer before, the centre reads the mean of the sources, and every slot
    keeps itself as a residual outside its attention.

    Paper: app:anchor, the general replication-blind architecture.
    """

    depth: int
    summary: Summary

    def targets(self, source: Tensor, target: Tensor, seed: int) -> list[Float64[Tensor, "targets dim"]]:
        """The target states after each layer."""
        generator = torch.Generator().manual_seed(seed)
        dim, slots = source.shape[1], 3
        memory, centre = _normal(generator, slots, dim), _normal(generator, 1, dim)
        history = []
        for _ in range(self.depth):
            queries, keys, values, own, heard, local = (_normal(generator, dim, dim) / dim**0.5 for _ in range(6))
            state = write((memory @ queries).unsqueeze(1), (source @ keys).unsqueeze(1), (source @ values).unsqueeze(1))
            memory = memory + self.summary(state)[0, :, 0].tanh()
            centre = (centre @ own + source.mean(dim=0, keepdim=True) @ local).tanh()
            source, target = (
                (nodes @ own + self._read(nodes @ queries, memory @ keys, memory) @ heard + centre @ local).tanh()
                for nodes in (source, target)
            )
            history.append(target)
        return history

    @staticmethod
    def _read(query: Tensor, key: Tensor, memory: Tensor) -> Tensor:
        return read(query.unsqueeze(1), key.unsqueeze(1), memory[None, :, None])[:, 0]


def largest_change(summary: Summary, instances: int, generator: torch.Generator) -> Float64[Tensor, " depth"]:
    """How much any target state differs between X and rX after each layer of random stacks."""
    depth, dim = 8, 11
    change = torch.zeros(depth, dtype=torch.float64)
    for seed in range(instances):
        source, target = _normal(generator, 5, dim), _normal(generator, 3, dim)
        factor = int(torch.randint(2, 6, (), generator=generator))
        copies = source.repeat(factor, 1)[torch.randperm(5 * factor, generator=generator)]
        stack = Stack(depth, summary)
        pairs = zip(stack.targets(source, target, seed), stack.targets(copies, target, seed), strict=True)
        change = torch.maximum(change, torch.stack([(first - second).abs().max() for first, second in pairs]))
    return change


def check_induction(summary: Summary, instances: int, generator: torch.Generator) -> Evidence:
    """Targets answer alike on X and rX after every layer of random stacks up to depth 8."""
    change = largest_change(summary, instances, generator)
    series = Series(
        title="Change of the targets when every source is repeated",
        x=list(range(1, len(change) + 1)),
        lines=(
            ("normalised reads", change.tolist()),
            ("anchored reads", largest_change(with_anchor, 1, generator).tolist()),
        ),
        xlabel="layer",
        ylabel="largest change",
        log="y",
    )
    worst = float(change.max())
    note = f"largest change over {len(change)} layers {worst:.1e}"
    return Evidence(worst <= ROUNDING, worst, instances, note, (series,))


def _normal(generator: torch.Generator, *shape: int) -> Float64[Tensor, "..."]:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="prop:replication",
        statement="Att(q, rX) = Att(q, X): a normalised read does not change when every element is repeated r times.",
        check=check_replication,
        subject=normalised,
        control=with_anchor,
        control_means="premise removed: a private anchor inside the softmax",
        margin_means="largest change of any read under replication; rounding allows 1e-11",
        instances=400,
    ),
    Claim(
        label="app:anchor",
        statement="Stacked: a network whose global reads are all normalised answers alike on X and rX at every depth.",
        check=check_induction,
        subject=normalised,
        control=with_anchor,
        control_means="premise removed: the same stack with anchored reads",
        margin_means="largest change of any target state after any layer; rounding allows 1e-11",
        instances=50,
    ),
)
