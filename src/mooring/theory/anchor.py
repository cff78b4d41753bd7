"""Counting: normalised attention cannot count; attention with an anchor inside the softmax can.

Without an anchor, X and r copies of X give the same output: in one read, ``Att(q, rX) = Att(q, X)`` (prop:replication),
and through any stack of layers (app:anchor). With an anchor, the output moves along a segment as copies are
added (prop:segment); mass and content can be recovered from it (prop:mass), also in float32 (prop:mass.float32).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor

from mooring.ops import SlotState, anchored, log_odds, read, write
from mooring.theory.claim import Evidence, Series

# Sums over r times as many nodes are rounded differently; nothing else may differ.
ROUNDING = 1e-11

Summary = Callable[[SlotState], Float64[Tensor, "graphs slots heads dim"]]


def normalised(state: SlotState) -> Float64[Tensor, "graphs slots heads dim"]:
    """Return the content without the mass: standard attention. Paper: eq:standardatt."""
    return state.content


def with_anchor(state: SlotState) -> Float64[Tensor, "graphs slots heads dim"]:
    """Return attention with a private anchor of logit 0 and value 0 inside the softmax. Paper: eq:anchored."""
    slots, heads, dim = state.content.shape[1:]
    return anchored(state, state.content.new_zeros(slots, heads), state.content.new_zeros(slots, heads, dim))


def check_replication(summary: Summary, instances: int, generator: torch.Generator) -> Evidence:
    """Check ``Att(q, rX) = Att(q, X)`` for random sets, slots, heads and r; copies are rows or log weights."""
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

    Slots read the sources and add the result to themselves, the centre takes the mean of the sources, and sources and
    targets read the slots and the centre.

    Paper: app:anchor, the general replication-blind architecture.
    """

    depth: int
    summary: Summary

    def targets(self, source: Tensor, target: Tensor, seed: int) -> list[Float64[Tensor, "targets dim"]]:
        """Return the target states after each layer."""
        generator = torch.Generator().manual_seed(seed)
        dim, slots = source.shape[1], 3
        memory, centre = _normal(generator, slots, dim), _normal(generator, 1, dim)
        history = []
        for _ in range(self.depth):
            queries, keys, values, same, context, local = (_normal(generator, dim, dim) / dim**0.5 for _ in range(6))
            state = write((memory @ queries).unsqueeze(1), (source @ keys).unsqueeze(1), (source @ values).unsqueeze(1))
            memory = memory + self.summary(state)[0, :, 0].tanh()
            centre = (centre @ same + source.mean(dim=0, keepdim=True) @ local).tanh()
            source, target = (
                (nodes @ same + self._read(nodes @ queries, memory @ keys, memory) @ context + centre @ local).tanh()
                for nodes in (source, target)
            )
            history.append(target)
        return history

    @staticmethod
    def _read(query: Tensor, key: Tensor, memory: Tensor) -> Tensor:
        return read(query.unsqueeze(1), key.unsqueeze(1), memory[None, :, None])[:, 0]


def largest_change(summary: Summary, instances: int, generator: torch.Generator) -> Float64[Tensor, " depth"]:
    """Return the largest difference of any target state between X and rX after each layer of random stacks."""
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
    """Check that targets have the same states on X and rX after every layer of random stacks, up to depth 8."""
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


def distinct_anchor(value: Float64[Tensor, " dim"], generator: torch.Generator) -> Float64[Tensor, " dim"]:
    """Draw an anchor value that differs from the nodes' value."""
    return value + _normal(generator, *value.shape)


def equal_anchor(value: Float64[Tensor, " dim"], generator: torch.Generator) -> Float64[Tensor, " dim"]:
    """Return the nodes' value, so that the segment is a single point."""
    del generator
    return value


AnchorDraw = Callable[[Float64[Tensor, " dim"], torch.Generator], Float64[Tensor, " dim"]]


def multiplicity(
    share: Float64[Tensor, " counts"], score: Float64[Tensor, ""], anchor_logit: Float64[Tensor, ""]
) -> Float64[Tensor, " counts"]:
    """Return ``k = share / (1 - share) exp(s0 - s)``; ``share`` is the fraction of the way from anchor to node
    value.
    """
    return share / (1 - share) * (anchor_logit - score).exp()


def bare_odds(
    share: Float64[Tensor, " counts"], score: Float64[Tensor, ""], anchor_logit: Float64[Tensor, ""]
) -> Float64[Tensor, " counts"]:
    """Return the odds alone, which grow with ``k`` but are not ``k``."""
    del score, anchor_logit
    return share / (1 - share)


@dataclass(frozen=True)
class Segment:
    """A rule that draws an anchor value, and a decoder of k from the position of the output on the segment."""

    anchor: AnchorDraw
    decode: Callable[[Float64[Tensor, " counts"], Float64[Tensor, ""], Float64[Tensor, ""]], Float64[Tensor, " counts"]]


def check_segment(segment: Segment, instances: int, generator: torch.Generator) -> Evidence:
    """Check that multiplicities from 0 to 400 are recovered from the position of the output between ``a`` and ``v``."""
    largest, dim, worst, examined = 400, 5, 0.0, 0
    counts = torch.arange(largest + 1)
    graph = counts.repeat_interleave(counts)
    for _ in range(instances):
        score, anchor_logit = (torch.rand(2, generator=generator, dtype=torch.float64) * 8 - 4).unbind()
        value = _normal(generator, dim)
        anchor = segment.anchor(value, generator)
        keys, values = torch.ones(len(graph), 1, 1, dtype=torch.float64), value.expand(len(graph), 1, dim)
        state = write(score.view(1, 1, 1), keys, values, graph, num_graphs=largest + 1)
        output = anchored(state, anchor_logit.view(1, 1), anchor.view(1, 1, dim))[:, 0, 0]
        direction = value - anchor
        length = direction.square().sum()
        if length == 0:
            return Evidence(False, math.inf, examined + largest + 1, "every multiplicity gives the same output")
        share = (output - anchor) @ direction / length
        decoded = segment.decode(share, score, anchor_logit)
        worst = max(worst, float((decoded - counts).abs().max()))
        examined += largest + 1
        if (share.diff() <= 0).any():
            return Evidence(False, worst, examined, "lambda_k does not increase with k")
    note = f"k=0..{largest} decoded within {worst:.1e} of the integer"
    return Evidence(worst < 0.5, 0.5 - worst, examined, note)


def dedicated_coordinate(value: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes dim"]:
    """Set coordinate 0 of the node values to zero, which reserves it for the anchor."""
    return torch.cat([torch.zeros_like(value[:, :1]), value[:, 1:]], dim=1)


def shared_coordinate(value: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes dim"]:
    """Return the node values unchanged, so that they share the anchor's coordinate."""
    return value


def check_round_trip(
    place: Callable[[Float64[Tensor, "nodes dim"]], Float64[Tensor, "nodes dim"]],
    instances: int,
    generator: torch.Generator,
) -> Evidence:
    """Check that mass, content and their product are recovered from the anchored output and the anchor logit alone."""
    dim, worst = 6, 0.0
    for _ in range(instances):
        nodes = int(torch.randint(1, 40, (), generator=generator))
        score, value = _normal(generator, 2, nodes, dim)
        score, value = 1.5 * score[:, 0], place(value)
        anchor_logit = _normal(generator) * 1.5
        anchor = torch.nn.functional.one_hot(torch.tensor(0), dim).double()
        state = write(torch.ones(1, 1, 1).double(), score.view(-1, 1, 1), value.unsqueeze(1))
        output = anchored(state, anchor_logit.view(1, 1), anchor.view(1, 1, dim))[0, 0, 0]
        share = output[0]
        mass = anchor_logit.exp() * (1 - share) / share
        content = output[1:] / (1 - share)
        weight = score.exp()
        error = torch.cat(
            [
                (mass / weight.sum() - 1).view(1),
                content - weight @ value[:, 1:] / weight.sum(),
                (mass * content - weight @ value[:, 1:]) / weight.sum(),
            ]
        )
        worst = max(worst, float(error.abs().nan_to_num(math.inf).max()))
    return Evidence(worst < 1e-9, worst, instances, f"largest error of mass, content or their product {worst:.1e}")


MassRead = Callable[[SlotState, Float32[Tensor, "slots heads"]], Float32[Tensor, "graphs slots heads"]]


def naive_log_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    """Return ``log(1 - alpha0) - log(alpha0)`` as printed in the paper, from the anchor weight."""
    share = torch.sigmoid(anchor_logit - state.log_mass)
    return (1 - share).log() - share.log()


def check_float32(read_mass: MassRead, instances: int, generator: torch.Generator) -> Evidence:
    """Check that in float32, log-odds from -100 to 100 are exact to a few units in the last place."""
    members, anchor_logit = 5, torch.full((1, 1), 1.25)
    score = torch.linspace(-100, 100, instances).view(-1, 1) + torch.randn(instances, members, generator=generator)
    value = torch.randn(instances * members, 1, 3, generator=generator)
    graph = torch.arange(instances).repeat_interleave(members)
    state = write(torch.ones(1, 1, 1), score.view(-1, 1, 1), value, graph)
    truth = score.double().logsumexp(dim=1) - anchor_logit.double().item()
    error = _error(read_mass(state, anchor_logit), truth)
    series = Series(
        title="Error of the mass channel in float32",
        x=truth.tolist(),
        lines=tuple(
            (name, _error(channel(state, anchor_logit), truth).clamp(min=1e-9).tolist())
            for name, channel in (
                ("log Z - s0", log_odds),
                ("log(1 - a0) - log(a0); infinite in gaps", naive_log_odds),
            )
        ),
        xlabel="log-odds log Z - s0",
        ylabel="absolute error",
        log="y",
    )
    relative = float((error / truth.abs().clamp(min=1)).max())
    lost = int((~error.isfinite()).sum())
    note = f"largest relative error {relative:.1e}; {lost} of {instances} masses lost altogether"
    return Evidence(relative < 1e-6, relative, instances, note, (series,))


def _error(measured: Float32[Tensor, "graphs 1 1"], truth: Float64[Tensor, " graphs"]) -> Float64[Tensor, " graphs"]:
    return (measured.flatten().double() - truth).abs()


def _normal(generator: torch.Generator, *shape: int) -> Float64[Tensor, "..."]:
    return torch.randn(shape, generator=generator, dtype=torch.float64)
