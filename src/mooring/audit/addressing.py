"""Addressing: the number of different messages that arrive, and whether a message depends on its receiver."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mooring.audit.adapters import Adapter, single
from mooring.audit.card import Finding

# The number of sources, and of targets; the largest number of messages that can be distinguished.
NODES = 19
# Above this width a Jacobian takes seconds, so only one scale is used.
WIDE = 32
# Rows of the Jacobian computed together; more would not fit the cache.
ROWS_AT_ONCE = 16
# Larger features route more sharply, smaller ones keep every gate open; the better result counts.
SCALES = (1.0, 3.0)
# Singular values are rounded to this many digits of the largest; further digits are LAPACK's rounding.
DIGITS = 9


def addressability(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure the rank of the target-by-source response, in messages.

    Nodes of one graph without edges are split into sources and targets, so no target has a direct path to a source.
    With R_j the Jacobian of target j's output by all source features, a homogeneous broadcast has R_j = J_j dz: every
    target sees the same global state through its own decoder, and together they see no more than its width.
    With M slots, target j sees sum_m rho_jm dz_m, and together they see M states. So, with rank at a stated tolerance,

        messages = rank([R_1; ...; R_n]) / max_j rank(R_j),

    and 1 if all targets together see no more than the width of one node. A readout has one target: one message.

    Paper: def:effective-factorization.
    """
    generator = torch.Generator().manual_seed(seed)
    # Singular values below this share of the largest are rounding.
    tolerance = adapter.tolerance
    # A rank is the same for almost every input, so one draw per scale is enough; ``trials`` is not used.
    x = torch.randn(2 * NODES, adapter.channels, generator=generator, dtype=torch.float64)
    best, distinct, received, values, case, tried = -1, 0, 0, torch.zeros(1), "none", 0
    for scale in SCALES if adapter.channels <= WIDE else SCALES[:1]:
        if best >= NODES:
            break
        tried += 1
        response = _response(adapter, scale * x)
        spectrum = torch.linalg.svdvals(response.flatten(0, 1))
        floor = tolerance * spectrum[0].clamp_min(1e-300)
        together = int((spectrum > floor).sum())
        alone = int((torch.linalg.svdvals(response) > floor).sum(-1).max())
        messages = _messages(together, alone, adapter)
        if messages > best:
            best, distinct, received, values = messages, together, alone, spectrum
            case = f"features of scale {scale:g}"
    singular_values = _round_spectrum(values)
    return Finding(
        name="addressability",
        verdict=_verdict(best, adapter),
        value=float(best),
        worst_case=case,
        trials=tried,
        explanation=f"rank of what all targets receive from {NODES} sources ({distinct}) over that of one target "
        f"({received}); singular values above {tolerance:g} of the largest",
        details={
            "rank_together": distinct,
            "rank_of_one_target": received,
            "limit": NODES,
            "effective_rank": round(
                sum(singular_values) ** 2 / max(sum(value**2 for value in singular_values), 1e-300), DIGITS
            ),
            "singular_values": singular_values,
        },
    )


def _round_spectrum(spectrum: Tensor) -> list[float]:
    """Round singular values to one decimal place, that of the last significant digit of the largest."""
    largest = float(spectrum.max())
    decimals = DIGITS - 1 - math.floor(math.log10(largest)) if 0 < largest < math.inf else 0
    return [round(float(value), decimals) for value in spectrum]


def _response(adapter: Adapter, x: Tensor) -> Tensor:
    """Return the Jacobian of the targets' outputs by the sources' features, ``[targets, out, sources * channels]``."""
    sources = x[:NODES].clone().requires_grad_()
    out = adapter(single(torch.cat([sources, x[NODES:]])))
    out = out[NODES:] if adapter.per_node else out
    flat = out.flatten()
    if not flat.requires_grad:
        return torch.zeros(*out.shape, sources.numel())
    rows = torch.eye(flat.numel(), dtype=flat.dtype).split(ROWS_AT_ONCE)
    jacobian = [part for row in rows for part in _backward(flat, sources, row)]
    return torch.cat(jacobian).double().reshape(*out.shape, -1)


def _backward(flat: Tensor, sources: Tensor, rows: Tensor) -> list[Tensor]:
    try:
        batched = torch.autograd.grad(
            flat, sources, rows, is_grads_batched=True, retain_graph=True, materialize_grads=True
        )
        return list(batched)
    except RuntimeError:
        # An operation has no batching rule: use one backward pass per output number.
        return [
            torch.autograd.grad(flat, sources, row, retain_graph=True, materialize_grads=True)[0].unsqueeze(0)
            for row in rows
        ]


def _messages(together: int, alone: int, adapter: Adapter) -> int:
    if together == 0:
        return 0
    # A rectifier passes only a part of one shared state to each target; that is a broadcast, not an address.
    if together <= adapter.channels:
        return 1
    # All numbers of all sources arrive somewhere, so all sources are distinguished.
    if adapter.per_node and together == NODES * adapter.channels:
        return NODES
    return round(together / max(alone, 1))


def _verdict(messages: int, adapter: Adapter) -> str:
    if messages == 0:
        return "nothing travels between nodes"
    if not adapter.per_node:
        return "1: a readout, the same for every reader"
    if messages == 1:
        return "1: homogeneous broadcast"
    if messages >= NODES:
        return f"every source separately ({NODES} of {NODES})"
    return f"{messages} independent messages"


def separability(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure mixed differences f(h_a, z1) - f(h_a, z2) - f(h_b, z1) + f(h_b, z2), relative to their terms.

    Two target nodes a and b stay, and the other nodes are replaced. With a separable output f(h) + g(z) both targets
    change by the same vector and the mixed difference is zero, so no two targets can swap labels. Both targets are in
    both graphs, so their share of z is the same on both sides.

    Paper: prop:separable.
    """
    explanation = (
        f"smallest mixed difference over the change it is made of; separable where all are below {adapter.tolerance:g}"
    )
    if not adapter.per_node:
        return Finding("separability", "a readout: nothing returns to the nodes", None, "none", 0, explanation)
    generator = torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    cases: list[str] = []
    for _ in range(trials):
        others = int(torch.randint(3, 12, (), generator=generator))
        targets = torch.randn(2, adapter.channels, generator=generator, dtype=torch.float64)
        first, second = (
            torch.randn(others, adapter.channels, generator=generator, dtype=torch.float64) for _ in range(2)
        )
        with torch.no_grad():
            before, after = (adapter(single(torch.cat([targets, rest])))[:2] for rest in (first, second))
        change = after - before
        size = float(change.abs().max())
        # Ignore a change at the level of rounding: its mixed difference would be noise over noise.
        if size > adapter.tolerance * float(before.abs().max()):
            ratios.append(float((change[0] - change[1]).abs().max()) / size)
            cases.append(f"{others} other nodes")
    if not ratios:
        return Finding("separability", "nothing travels between nodes", None, "none", trials, explanation)
    separable = max(ratios) <= adapter.tolerance
    return Finding(
        name="separability",
        verdict="separable: every node gets the same change" if separable else "joint: the change depends on the node",
        value=max(ratios) if separable else min(ratios),
        worst_case=cases[ratios.index(min(ratios))],
        trials=trials,
        explanation=explanation,
        details={"separable": separable, "smallest": min(ratios), "largest": max(ratios)},
    )
