"""What the anchor measures: multiplicity on a segment, mass and content in a round trip, mass in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor

from mooring.ops import SlotState, anchored, log_odds, write
from mooring.theory.claim import Claim, Evidence
from mooring.theory.series import Series


def distinct_anchor(value: Float64[Tensor, " dim"], generator: torch.Generator) -> Float64[Tensor, " dim"]:
    """An anchor value other than the nodes' value."""
    return value + torch.randn(value.shape, generator=generator, dtype=torch.float64)


def equal_anchor(value: Float64[Tensor, " dim"], generator: torch.Generator) -> Float64[Tensor, " dim"]:
    """The nodes' own value: the segment is a point."""
    del generator
    return value


AnchorDraw = Callable[[Float64[Tensor, " dim"], torch.Generator], Float64[Tensor, " dim"]]


def multiplicity(
    share: Float64[Tensor, " counts"], score: Float64[Tensor, ""], anchor_logit: Float64[Tensor, ""]
) -> Float64[Tensor, " counts"]:
    """The ``k`` that puts the output at this share of the way from the anchor to the nodes' value."""
    return share / (1 - share) * (anchor_logit - score).exp()


def bare_odds(
    share: Float64[Tensor, " counts"], score: Float64[Tensor, ""], anchor_logit: Float64[Tensor, ""]
) -> Float64[Tensor, " counts"]:
    """The odds alone: they grow with ``k`` but are not ``k``."""
    del score, anchor_logit
    return share / (1 - share)


@dataclass(frozen=True)
class Segment:
    """An anchor, and how a multiplicity is read off the share of the way from it to the nodes' value."""

    draw: AnchorDraw
    decode: Callable[[Float64[Tensor, " counts"], Float64[Tensor, ""], Float64[Tensor, ""]], Float64[Tensor, " counts"]]


def check_segment(segment: Segment, instances: int, generator: torch.Generator) -> Evidence:
    """Every multiplicity from 0 to 400 is read off where the anchored output lies between ``a`` and ``v``."""
    largest, dim, worst, examined = 400, 5, 0.0, 0
    counts = torch.arange(largest + 1)
    graph = counts.repeat_interleave(counts)
    for _ in range(instances):
        score, anchor_logit = (torch.rand(2, generator=generator, dtype=torch.float64) * 8 - 4).unbind()
        value = torch.randn(dim, generator=generator, dtype=torch.float64)
        anchor = segment.draw(value, generator)
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


def dedicated(value: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes dim"]:
    """Node values leave coordinate 0 to the anchor."""
    return torch.cat([torch.zeros_like(value[:, :1]), value[:, 1:]], dim=1)


def shared(value: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes dim"]:
    """Node values use the anchor's coordinate too."""
    return value


def check_round_trip(
    place: Callable[[Float64[Tensor, "nodes dim"]], Float64[Tensor, "nodes dim"]],
    instances: int,
    generator: torch.Generator,
) -> Evidence:
    """Mass, content and their product come back from the anchored output and the anchor logit alone."""
    dim, worst = 6, 0.0
    for _ in range(instances):
        nodes = int(torch.randint(1, 40, (), generator=generator))
        score, value = torch.randn(2, nodes, dim, generator=generator, dtype=torch.float64)
        score, value = 1.5 * score[:, 0], place(value)
        anchor_logit = torch.randn((), generator=generator, dtype=torch.float64) * 1.5
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
    """``log(1 - alpha0) - log(alpha0)`` as the paper prints it, from the anchor weight."""
    share = torch.sigmoid(anchor_logit - state.log_mass)
    return (1 - share).log() - share.log()


def check_float32(read_mass: MassRead, instances: int, generator: torch.Generator) -> Evidence:
    """In float32, log-odds from -100 to 100 come back to a few units in the last place."""
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


CLAIMS: tuple[Claim, ...] = (
    Claim(
        label="prop:segment",
        statement="k identical nodes move the anchored read along the segment from a to v, injectively in k.",
        check=check_segment,
        subject=Segment(distinct_anchor, multiplicity),
        control=Segment(equal_anchor, multiplicity),
        control_means="premise removed: the anchor has the nodes' own value, a = v",
        margin_means="0.5 minus the furthest any decoded multiplicity was from its integer",
        instances=5,
        more_controls={"odds without the logits, which grow with k but are not k": Segment(distinct_anchor, bare_odds)},
    ),
    Claim(
        label="prop:mass",
        statement="Mass Z, content mu and their product are recovered from the anchored output and the anchor logit.",
        check=check_round_trip,
        subject=dedicated,
        control=shared,
        control_means="premise removed: node values are not zero in the anchor's coordinate",
        margin_means="largest relative error of the round trip; 1e-9 allowed",
        instances=500,
    ),
    Claim(
        label="prop:mass.float32",
        statement="In float32 log Z - s0 keeps its digits at any mass; log(1 - alpha0) - log(alpha0) does not.",
        check=check_float32,
        subject=log_odds,
        control=naive_log_odds,
        control_means="the printed formula, evaluated from alpha0",
        margin_means="largest error relative to max(1, |log-odds|); 1e-6 allowed",
        instances=201,
    ),
)
