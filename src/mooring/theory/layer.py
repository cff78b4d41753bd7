"""A whole global layer: what a node gets back of what it wrote, and what a pass costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64
from torch import Generator, Tensor, nn
from torch_geometric.nn import GINConv

from mooring.counter import OperationCounter
from mooring.nn import SlotVirtualNode
from mooring.nn.addresses import Routing
from mooring.ops import read, write
from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.instances import normal

CHANNELS, SLOTS = 16, 8
TEMPERATURES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUTINGS: dict[str, Routing] = {"self-addressed": "self", "free": "free"}


def round_trip(
    routing: Routing, temperature: float, nodes: int, generator: Generator
) -> tuple[Float64[Tensor, "nodes nodes"], float]:
    """Return the round trip of an untrained module of one head, and the ``1 + chi^2`` of its writes.

    One head writes with weights ``a = e_im / sum_i e_im`` and reads with ``rho = e_im / sum_m e_im``, where
    ``e = exp(score)``. The matrix ``R = rho a`` maps values of nodes to what nodes read. Writes and reads that share
    their scores make ``R`` similar to a positive semi-definite matrix: its eigenvalues lie in [0, 1], and its trace is
    ``1 + chi^2``, the dependence between nodes and slots under ``P = e / sum e``. A virtual node has ``R = 1 1^T / n``
    and trace one. Reads whose scores are independent of the writes have a trace of one on average.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        module = SlotVirtualNode(CHANNELS, SLOTS, heads=1, routing=routing, temperature=temperature).double()
    x = normal(generator, nodes, CHANNELS)
    with torch.no_grad():
        _, memory = module(x, return_state=True)
    written, received = memory.write_weights.squeeze(-1), memory.read_weights.squeeze(-1)
    joint = written * memory.state.log_mass.exp().squeeze(-1)
    joint = joint / joint.sum()
    dependence = float((joint.square() / joint.sum(dim=1, keepdim=True) / joint.sum(dim=0)).sum())
    return received @ written.T, dependence


@claim(
    "prop:roundtrip",
    "Ours: slots whose writes and reads share scores start as 1 + chi^2 virtual nodes.",
    subject=ROUTINGS["self-addressed"],
    controls={"reads by content, whose scores are unrelated to those of the writes": ROUTINGS["free"]},
    margin_means="largest distance of the trace from 1 + chi^2, or an eigenvalue from [0, 1]; 1e-10 allowed",
    instances=40,
)
def round_trip_trace(routing: Routing, instances: int, generator: Generator) -> Evidence:
    """Compare the trace with ``1 + chi^2`` and the eigenvalues with [0, 1], on untrained modules and random nodes."""
    worst, traces = 0.0, []
    for _ in range(instances):
        nodes = int(torch.randint(3, 40, (), generator=generator))
        temperature = TEMPERATURES[int(torch.randint(len(TEMPERATURES), (), generator=generator))]
        trip, dependence = round_trip(routing, temperature, nodes, generator)
        values = torch.linalg.eigvals(trip)
        traces.append(float(trip.trace()))
        outside = max(float(-values.real.min()), float(values.real.max()) - 1.0, float(values.imag.abs().max()))
        worst = max(worst, abs(traces[-1] - dependence), outside)
    note = f"traces from {min(traces):.3f} to {max(traces):.3f} of {SLOTS} slots; largest difference {worst:.1e}"
    num_nodes = 64

    def mean_trace(kind: Routing, temperature: float) -> float:
        drawn = [round_trip(kind, temperature, num_nodes, generator)[0].trace() for _ in range(8)]
        return float(torch.stack(drawn).mean())

    title = f"How many virtual nodes {SLOTS} untrained slots are worth to {num_nodes} nodes"
    lines = [(label, [mean_trace(kind, t) for t in TEMPERATURES]) for label, kind in ROUTINGS.items()]
    series = Series(title, TEMPERATURES, lines, "temperature", "trace of the round trip", "x")
    return Evidence(worst <= 1e-10 and min(traces) > 1.0, worst, instances, note, (series,))


Layer = Callable[[Tensor, Tensor], Tensor]
"""Maps node features [n, d] and slot states [M, d] to node features [n, d]."""


def slot_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Write to the slots and read from them, using the library's ops."""
    state = write(slots.unsqueeze(1), nodes.unsqueeze(1), nodes.unsqueeze(1))
    return read(nodes.unsqueeze(1), slots.unsqueeze(1), state.content)[:, 0]


def dense_layer(nodes: Tensor, slots: Tensor) -> Tensor:
    """Apply self-attention between all nodes; the slots are unused."""
    return (nodes @ nodes.T).softmax(dim=1) @ nodes


def count(layer: Layer, n: int, slots: int, dim: int) -> OperationCounter:
    """Count the operations of one call. The count depends on sizes only, so the features are zero."""
    with OperationCounter() as counter:
        layer(torch.zeros(n, dim), torch.zeros(slots, dim))
    return counter


def exponent(sizes: Sequence[int], counts: Sequence[int]) -> float:
    """Return the slope of log count over log size, by least squares."""
    x, y = (torch.tensor([math.log(value) for value in values], dtype=torch.float64) for values in (sizes, counts))
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


@claim(
    "sec:background.cost",
    "A write and a read cost O(nM) pairs and O(nMd) arithmetic.",
    subject=slot_layer,
    controls={"dense self-attention, whose pairs and arithmetic grow as n^2": dense_layer},
    margin_means="largest distance of a fitted growth exponent from the claimed one; 0.01 allowed",
    instances=5,
)
def attention_cost(layer: Layer, instances: int, generator: Generator) -> Evidence:
    """Check that multiply-adds have exponent 1 in n, M and d, and pairs in n and M. ``instances`` counts doublings."""
    base = {"n": 96, "slots": 8, "dim": 16}
    worst, examined, slopes = 0.0, 0, []
    for axis, start in base.items():
        sizes = [start * 2**step for step in range(instances + 1)]
        counters = [count(layer, **{**base, axis: size}) for size in sizes]
        examined += len(sizes)
        work = exponent(sizes, [counter.multiply_adds for counter in counters])
        pairs = exponent(sizes, [counter.pairs for counter in counters])
        slopes.append(f"{axis}: {work:.3f}, pairs {pairs:.3f}")
        # One pair costs one exponential at any width, so pairs have exponent 0 in d.
        worst = max(worst, abs(work - 1), abs(pairs - (axis != "dim")))
    sizes, slots, dim = [64 * 2**step for step in range(6)], 16, 32
    layers = (("write + read", slot_layer), ("dense attention", dense_layer))
    lines = [(label, [count(kind, n, slots, dim).multiply_adds for n in sizes]) for label, kind in layers]
    title = f"Multiply-adds of one global layer, M={slots}, d={dim}, counted"
    series = Series(title, sizes, lines, "nodes n", "multiply-adds", "xy")
    return Evidence(worst < 0.01, worst, examined, "exponents " + "; ".join(slopes), (series,))


Global = Callable[[int, int], nn.Module]
"""Maps width and number of slots to a module of node features."""


def paper_slots(channels: int, slots: int) -> nn.Module:
    """Build a SlotVirtualNode with the paper's routing by content."""
    return SlotVirtualNode(channels, slots, routing="free")


class DenseSelfAttention(nn.Module):
    """Self-attention between all nodes, with projections; the slots are unused."""

    def __init__(self, channels: int, slots: int) -> None:
        super().__init__()
        self.project = nn.Linear(channels, 3 * channels)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, dim=1)
        return (query @ key.T).softmax(dim=1) @ value


def count_layer(module: Global, n: int, degree: int, slots: int, dim: int) -> int:
    """Count the operations of messages along edges and a global module on a graph of constant degree."""
    # Every node sends to the next ones; the cost does not depend on the ends of the edges.
    sender = torch.arange(n).repeat_interleave(degree)
    edge_index = torch.stack([sender, (sender + 1 + torch.arange(degree).repeat(n)) % n])
    local, memory, x = GINConv(nn.Linear(dim, dim)).eval(), module(dim, slots).eval(), torch.zeros(n, dim)
    with torch.no_grad(), OperationCounter() as counter:
        memory(local(x, edge_index))
    return counter.operations


def square_root(n: int) -> int:
    """Return ``ceil(sqrt(n))``."""
    return math.isqrt(n - 1) + 1


@claim(
    "sec:discussion.cost",
    "Messages and a whole SlotVirtualNode cost O(|E|d + nd^2 + nMd), with M = sqrt(n) too.",
    subject=paper_slots,
    controls={"dense self-attention in place of the slots": DenseSelfAttention},
    margin_means="most operations over |E|d + nd^2 + nMd at any size, over the fewest; 5 allowed",
    instances=3,
    least=2,
)
def layer_cost(module: Global, instances: int, generator: Generator) -> Evidence:
    """Check that operations are proportional to ``|E| d + n d^2 + n M d`` within a factor of 5.

    ``instances`` is the number of fourfold steps in n.
    """
    ratios: dict[str, float] = {}
    for n in (128 * 4**step for step in range(instances)):
        for degree, slots, dim in itertools.product((2, 16), (8, square_root(n)), (16, 64)):
            unit = n * degree * dim + n * dim**2 + n * slots * dim
            ratios[f"n={n}, degree {degree}, M={slots}, d={dim}"] = count_layer(module, n, degree, slots, dim) / unit
    most, fewest = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    spread = ratios[most] / ratios[fewest]
    note = f"{ratios[fewest]:.1f} ({fewest}) to {ratios[most]:.1f} ({most})"
    if spread > 5.0:
        return Evidence(False, spread, len(ratios), note)
    sizes, degree, dim = [128 * 2**step for step in range(6)], 4, 32
    layers: tuple[tuple[str, Global, Callable[[int], int]], ...] = (
        ("slots, M=8", paper_slots, lambda n: 8),
        ("slots, M=sqrt(n)", paper_slots, square_root),
        ("dense attention", DenseSelfAttention, lambda n: 8),
    )
    lines = [(label, [count_layer(module, n, degree, slots(n), dim) for n in sizes]) for label, module, slots in layers]
    title = f"Operations of a whole layer, degree {degree}, d={dim}, counted"
    series = Series(title, sizes, lines, "nodes n", "operations", "xy")
    return Evidence(True, spread, len(ratios), note, (series,))
