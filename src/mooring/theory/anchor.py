"""Counting: normalised attention cannot count; attention with an anchor inside the softmax can.

Without an anchor, X and r copies of X give the same output, in one read and through any stack of layers. With an
anchor, the output moves along a segment as copies are added, and mass and content can be recovered from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Generator, Tensor

from mooring.ops import SlotState, anchored, log_odds, read, write
from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.instances import normal

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


@claim(
    "prop:replication",
    "Att(q, rX) = Att(q, X): a normalised read does not change when every element is repeated r times.",
    subject=normalised,
    controls={"premise removed: a private anchor inside the softmax": with_anchor},
    margin_means="largest change of any read under replication; rounding allows 1e-11",
    instances=400,
)
def replication(summary: Summary, instances: int, generator: Generator) -> Evidence:
    """Check ``Att(q, rX) = Att(q, X)`` for random sets, slots, heads and r; copies are rows or log weights."""
    worst, note = 0.0, ""
    for _ in range(instances):
        nodes, slots, heads, factor = (int(torch.randint(1, 12, (), generator=generator)) for _ in range(4))
        factor += 1
        scale = 10 ** float(torch.rand((), generator=generator) * 2 - 1)
        query = normal(generator, slots, heads, 7) * scale
        key, value = normal(generator, nodes, heads, 7), normal(generator, nodes, heads, 5)
        order = torch.randperm(nodes * factor, generator=generator) % nodes
        once = summary(write(query, key, value))
        copies = summary(write(query, key[order], value[order]))
        weighted = summary(write(query, key, value, log_weight=torch.full((nodes,), math.log(factor)).double()))
        change = max(float((copies - once).abs().max()), float((weighted - once).abs().max()))
        if change >= worst:
            worst, note = change, f"largest change {change:.1e}, at {nodes} nodes repeated {factor} times"
    return Evidence(worst <= ROUNDING, worst, instances, note)


def stack_states(
    summary: Summary, depth: int, source: Tensor, target: Tensor, seed: int
) -> list[Float64[Tensor, "targets dim"]]:
    """Return the target states after each of ``depth`` random layers over a source-centre-target graph.

    Slots read the sources and add the result to themselves, the centre takes the mean of the sources, and sources and
    targets read the slots and the centre.

    Paper: app:anchor, the general replication-blind architecture.
    """
    generator = Generator().manual_seed(seed)
    dim, slots = source.shape[1], 3
    memory, centre = normal(generator, slots, dim), normal(generator, 1, dim)
    history = []
    for _ in range(depth):
        queries, keys, values, same, context, local = (normal(generator, dim, dim) / dim**0.5 for _ in range(6))
        state = write((memory @ queries).unsqueeze(1), (source @ keys).unsqueeze(1), (source @ values).unsqueeze(1))
        memory = memory + summary(state)[0, :, 0].tanh()
        centre = (centre @ same + source.mean(dim=0, keepdim=True) @ local).tanh()
        key, value = (memory @ keys).unsqueeze(1), memory[None, :, None]
        source, target = (
            (nodes @ same + read((nodes @ queries).unsqueeze(1), key, value)[:, 0] @ context + centre @ local).tanh()
            for nodes in (source, target)
        )
        history.append(target)
    return history


def largest_change(summary: Summary, instances: int, generator: Generator) -> Float64[Tensor, " depth"]:
    """Return the largest difference of any target state between X and rX after each layer of random stacks."""
    depth, dim = 8, 11
    change = torch.zeros(depth, dtype=torch.float64)
    for seed in range(instances):
        source, target = normal(generator, 5, dim), normal(generator, 3, dim)
        factor = int(torch.randint(2, 6, (), generator=generator))
        copies = source.repeat(factor, 1)[torch.randperm(5 * factor, generator=generator)]
        once, many = (torch.stack(stack_states(summary, depth, each, target, seed)) for each in (source, copies))
        change = torch.maximum(change, (once - many).abs().amax(dim=(1, 2)))
    return change


@claim(
    "app:anchor",
    "Stacked: a network whose global reads are all normalised answers alike on X and rX at every depth.",
    subject=normalised,
    controls={"premise removed: the same stack with anchored reads": with_anchor},
    margin_means="largest change of any target state after any layer; rounding allows 1e-11",
    instances=50,
)
def stacked_replication(summary: Summary, instances: int, generator: Generator) -> Evidence:
    """Check that targets have the same states on X and rX after every layer of random stacks, up to depth 8."""
    change = largest_change(summary, instances, generator)
    lines = (
        ("normalised reads", change.tolist()),
        ("anchored reads", largest_change(with_anchor, 1, generator).tolist()),
    )
    title = "Change of the targets when every source is repeated"
    series = Series(title, list(range(1, len(change) + 1)), lines, "layer", "largest change", "y")
    worst = float(change.max())
    note = f"largest change over {len(change)} layers {worst:.1e}"
    return Evidence(worst <= ROUNDING, worst, instances, note, (series,))


Scalar = Float64[Tensor, ""]


def distinct_anchor(value: Float64[Tensor, " dim"], generator: Generator) -> Float64[Tensor, " dim"]:
    """Draw an anchor value that differs from the nodes' value."""
    return value + normal(generator, *value.shape)


def multiplicity(share: Float64[Tensor, " counts"], score: Scalar, anchor_logit: Scalar) -> Float64[Tensor, " counts"]:
    """Return ``k = share / (1 - share) exp(s0 - s)``; ``share`` is the way from anchor to node value, in [0, 1]."""
    return share / (1 - share) * (anchor_logit - score).exp()


@dataclass(frozen=True)
class Segment:
    """A rule that draws an anchor value, and a decoder of k from the position of the output on the segment."""

    anchor: Callable[[Float64[Tensor, " dim"], Generator], Float64[Tensor, " dim"]]
    decode: Callable[[Float64[Tensor, " counts"], Scalar, Scalar], Float64[Tensor, " counts"]]


@claim(
    "prop:segment",
    "k identical nodes move the anchored read along the segment from a to v, injectively in k.",
    subject=Segment(distinct_anchor, multiplicity),
    controls={
        "premise removed: the anchor has the nodes' own value, a = v": Segment(lambda value, _: value, multiplicity),
        "odds without the logits, which grow with k but are not k": Segment(
            distinct_anchor, lambda share, *_: share / (1 - share)
        ),
    },
    margin_means="0.5 minus the furthest any decoded multiplicity was from its integer",
    instances=5,
)
def segment_position(segment: Segment, instances: int, generator: Generator) -> Evidence:
    """Check that multiplicities from 0 to 400 are recovered from the position of the output between ``a`` and ``v``."""
    largest, dim, worst, examined = 400, 5, 0.0, 0
    counts = torch.arange(largest + 1)
    graph = counts.repeat_interleave(counts)
    for _ in range(instances):
        score, anchor_logit = (torch.rand(2, generator=generator, dtype=torch.float64) * 8 - 4).unbind()
        value = normal(generator, dim)
        anchor = segment.anchor(value, generator)
        keys, values = torch.ones(len(graph), 1, 1, dtype=torch.float64), value.expand(len(graph), 1, dim)
        state = write(score.view(1, 1, 1), keys, values, graph, num_graphs=largest + 1)
        output = anchored(state, anchor_logit.view(1, 1), anchor.view(1, 1, dim))[:, 0, 0]
        direction = value - anchor
        length = direction.square().sum()
        examined += largest + 1
        if length == 0:
            return Evidence(False, math.inf, examined, "every multiplicity gives the same output")
        share = (output - anchor) @ direction / length
        decoded = segment.decode(share, score, anchor_logit)
        worst = max(worst, float((decoded - counts).abs().max()))
        if (share.diff() <= 0).any():
            return Evidence(False, worst, examined, "lambda_k does not increase with k")
    note = f"k=0..{largest} decoded within {worst:.1e} of the integer"
    return Evidence(worst < 0.5, 0.5 - worst, examined, note)


def dedicated_coordinate(value: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes dim"]:
    """Set coordinate 0 of the node values to zero, which reserves it for the anchor."""
    return torch.cat([torch.zeros_like(value[:, :1]), value[:, 1:]], dim=1)


@claim(
    "prop:mass",
    "Mass Z, content mu and their product are recovered from the anchored output and the anchor logit.",
    subject=dedicated_coordinate,
    controls={"premise removed: node values are not zero in the anchor's coordinate": lambda value: value},
    margin_means="largest relative error of the round trip; 1e-9 allowed",
    instances=500,
)
def recovered_mass(
    place: Callable[[Float64[Tensor, "nodes dim"]], Float64[Tensor, "nodes dim"]], instances: int, generator: Generator
) -> Evidence:
    """Check that mass, content and their product are recovered from the anchored output and the anchor logit alone."""
    dim, worst = 6, 0.0
    anchor = torch.nn.functional.one_hot(torch.tensor(0), dim).double()
    for _ in range(instances):
        nodes = int(torch.randint(1, 40, (), generator=generator))
        score, value = normal(generator, 2, nodes, dim)
        score, value = 1.5 * score[:, 0], place(value)
        anchor_logit = normal(generator) * 1.5
        state = write(torch.ones(1, 1, 1).double(), score.view(-1, 1, 1), value.unsqueeze(1))
        output = anchored(state, anchor_logit.view(1, 1), anchor.view(1, 1, dim))[0, 0, 0]
        share = output[0]
        mass, content = anchor_logit.exp() * (1 - share) / share, output[1:] / (1 - share)
        weight = score.exp()
        true_mass, true_total = weight.sum(), weight @ value[:, 1:]
        errors = (
            (mass / true_mass - 1).view(1),
            content - true_total / true_mass,
            (mass * content - true_total) / true_mass,
        )
        worst = max(worst, float(torch.cat(errors).abs().nan_to_num(math.inf).max()))
    return Evidence(worst < 1e-9, worst, instances, f"largest error of mass, content or their product {worst:.1e}")


def naive_log_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    """Return ``log(1 - alpha0) - log(alpha0)`` as printed in the paper, from the anchor weight."""
    share = torch.sigmoid(anchor_logit - state.log_mass)
    return (1 - share).log() - share.log()


@claim(
    "prop:mass.float32",
    "In float32 log Z - s0 keeps its digits at any mass; log(1 - alpha0) - log(alpha0) does not.",
    subject=log_odds,
    controls={"the printed formula, evaluated from alpha0": naive_log_odds},
    margin_means="largest error relative to max(1, |log-odds|); 1e-6 allowed",
    instances=201,
)
def float32_mass(
    mass_channel: Callable[[SlotState, Float[Tensor, "slots heads"]], Float[Tensor, "graphs slots heads"]],
    instances: int,
    generator: Generator,
) -> Evidence:
    """Check that in float32, log-odds from -100 to 100 are exact to a few units in the last place."""
    members, anchor_logit = 5, torch.full((1, 1), 1.25)
    score = torch.linspace(-100, 100, instances).view(-1, 1) + torch.randn(instances, members, generator=generator)
    value = torch.randn(instances * members, 1, 3, generator=generator)
    graph = torch.arange(instances).repeat_interleave(members)
    state = write(torch.ones(1, 1, 1), score.view(-1, 1, 1), value, graph)
    truth = score.double().logsumexp(dim=1) - anchor_logit.double().item()
    error, exact, naive = (
        (channel(state, anchor_logit).flatten().double() - truth).abs()
        for channel in (mass_channel, log_odds, naive_log_odds)
    )
    lines = (
        ("log Z - s0", exact.clamp(min=1e-9).tolist()),
        ("log(1 - a0) - log(a0); infinite in gaps", naive.clamp(min=1e-9).tolist()),
    )
    title = "Error of the mass channel in float32"
    series = Series(title, truth.tolist(), lines, "log-odds log Z - s0", "absolute error", "y")
    relative = float((error / truth.abs().clamp(min=1)).max())
    lost = int((~error.isfinite()).sum())
    note = f"largest relative error {relative:.1e}; {lost} of {instances} masses lost altogether"
    return Evidence(relative < 1e-6, relative, instances, note, (series,))
