"""What a node gets back of what it wrote: the round trip of self-addressed slots against that of free ones.

prop:roundtrip is ours and not the paper's. One head writes with weights ``a = e_im / sum_i e_im`` and reads with
``rho = e_im / sum_m e_im``, where ``e = exp(score)``. The matrix ``R = rho a`` maps values of nodes to what nodes read.
Writes and reads that share their scores make ``R`` similar to a positive semi-definite matrix: its eigenvalues lie in
[0, 1], and its trace is ``1 + chi^2``, the dependence between nodes and slots under ``P = e / sum e``. A virtual node
has ``R = 1 1^T / n`` and trace one. Reads whose scores do not know where nodes wrote have a trace of one on average.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.nn import SlotVirtualNode
from mooring.nn.addresses import Routing
from mooring.theory.claim import Evidence, Series

ROUNDING = 1e-10
CHANNELS, SLOTS = 16, 8
TEMPERATURES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)


def round_trip(
    routing: Routing, temperature: float, nodes: int, generator: torch.Generator
) -> tuple[Float64[Tensor, "nodes nodes"], float]:
    """Return the round trip of an untrained module of one head, and the ``1 + chi^2`` of its writes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        module = SlotVirtualNode(CHANNELS, SLOTS, heads=1, routing=routing, temperature=temperature).double()
    x = torch.randn(nodes, CHANNELS, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        _, memory = module(x, return_state=True)
    written, read = memory.write_weights.squeeze(-1), memory.read_weights.squeeze(-1)
    joint = written * memory.state.log_mass.exp().squeeze(-1)
    joint = joint / joint.sum()
    dependence = float((joint.square() / joint.sum(dim=1, keepdim=True) / joint.sum(dim=0)).sum())
    return read @ written.T, dependence


def check_round_trip(routing: Routing, instances: int, generator: torch.Generator) -> Evidence:
    """Compare the trace with ``1 + chi^2`` and the eigenvalues with [0, 1], on untrained modules and random nodes."""
    worst, least, most = 0.0, float("inf"), 0.0
    for _ in range(instances):
        nodes = int(torch.randint(3, 40, (), generator=generator))
        temperature = TEMPERATURES[int(torch.randint(len(TEMPERATURES), (), generator=generator))]
        trip, dependence = round_trip(routing, temperature, nodes, generator)
        values = torch.linalg.eigvals(trip)
        trace = float(trip.trace())
        outside = max(float(-values.real.min()), float(values.real.max()) - 1.0, float(values.imag.abs().max()))
        worst = max(worst, abs(trace - dependence), outside)
        least, most = min(least, trace), max(most, trace)
    note = f"traces from {least:.3f} to {most:.3f} of {SLOTS} slots; largest difference {worst:.1e}"
    return Evidence(worst <= ROUNDING and least > 1.0, worst, instances, note, (_traces(generator),))


def _traces(generator: torch.Generator, drawn: int = 8, nodes: int = 64) -> Series:
    """Return the mean trace at the start of training against the temperature."""

    def mean(routing: Routing, temperature: float) -> float:
        trips = [round_trip(routing, temperature, nodes, generator)[0] for _ in range(drawn)]
        return float(torch.stack([trip.trace() for trip in trips]).mean())

    kinds: tuple[tuple[str, Routing], ...] = (("self-addressed", "self"), ("free", "free"))
    return Series(
        title=f"How many virtual nodes {SLOTS} untrained slots are worth to {nodes} nodes",
        x=TEMPERATURES,
        lines=tuple((label, [mean(routing, t) for t in TEMPERATURES]) for label, routing in kinds),
        xlabel="temperature",
        ylabel="trace of the round trip",
        log="x",
    )
