"""Expressiveness: whether a module counts, how many messages it delivers, who receives them, and from how far away."""

from __future__ import annotations

import contextlib
import io
import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import total_influence

from mooring.audit.adapters import Adapter, random_graph, relative_difference, single
from mooring.audit.card import Finding

# A smaller change comes from an epsilon in a denominator, which a model cannot use.
BLIND = 1e-6
# Share of the variance of log n that a probe must explain on unseen multisets.
COUNTS = 0.9
COLOURS = 3
# Numbers of multisets: to fit the probe, and unseen ones to judge it.
SAMPLES = (300, 90)
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Probe, kernel width, ridge.
CANDIDATES = (
    *((probe, 1.0, ridge) for probe in ("linear", "log", "log-log") for ridge in RIDGES),
    *(("kernel", width, ridge) for width in (1.0, 3.0, 10.0, 30.0) for ridge in RIDGES),
)
# The number of sources, and of targets; the largest number of messages that can be distinguished.
NODES = 19
# Larger features route more sharply, smaller ones keep every gate open; the better result counts.
SCALES = (1.0, 3.0)
# Above this width a Jacobian takes seconds, so only one scale is used.
WIDE = 32
# Rows of the Jacobian computed together; more would not fit the cache.
ROWS_AT_ONCE = 16
# Nodes of the path on which influence is measured; its ends are one hop less apart.
PATH = 13
# Decimals of a fit, significant digits of a spectrum: LAPACK's last digits depend on memory alignment.
DIGITS = 9


def replication(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure whether f(rX) = f(X), and if not, whether the count can be recovered from the output.

    The probe sees multisets over a small alphabet of colours, of varying base size and multiplicity. All nodes are
    replicated, because an unreplicated node would act as an anchor. For a module with node outputs the features are the
    output of one node of constant colour, so that only the other nodes can reveal the count.

    Paper: prop:replication, thm:wlinjective.
    """
    generator = Generator().manual_seed(seed)
    change, case = 0.0, "none"
    for trial in range(trials):
        # Use sizes and multiplicities of both parities; otherwise a module sensitive only to parity would be reported
        # as blind.
        nodes = 2 + trial % 11
        graph = random_graph(generator, nodes, adapter.channels)
        for times in (2, 3 + trial % 5):
            with torch.no_grad():
                once = adapter(graph)
                many = adapter(graph.replicate(times))[: once.size(0)]
            error = relative_difference(many, once)
            if error > change:
                change, case = error, f"{nodes} nodes repeated {times} times"
    explanation = f"largest relative change from X to rX, called blind below {BLIND:g}"
    if change <= BLIND:
        verdict = "blind: f(rX) = f(X)"
        return Finding("replication", verdict, change, case, 2 * trials, explanation, details={"change": change})
    alphabet = torch.randn(COLOURS, adapter.channels, generator=generator, dtype=torch.float64)
    train, held_out = (_multisets(adapter, alphabet, size, generator) for size in SAMPLES)
    result = count_probe(train, held_out)
    counts = result.r2 >= COUNTS
    percent = 100 * math.expm1(result.log_error)
    within = "below 0.1 %" if percent < 0.1 else f"{percent:.2g} %"
    return Finding(
        name="replication",
        verdict=f"counts: n recovered, median error {within}" if counts else "sees copies, but n is not recovered",
        value=result.r2,
        worst_case=case,
        trials=2 * trials + sum(SAMPLES),
        explanation=f"held-out R² of log n read from the output by a fitted probe, counts from {COUNTS}; {explanation}",
        details={"change": change, **result._asdict(), "counts": counts},
    )


def _multisets(adapter: Adapter, alphabet: Tensor, samples: int, generator: Generator) -> tuple[Tensor, Tensor]:
    features, counts = [], []
    for _ in range(samples):
        base, times = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((2, 12), (1, 8)))
        colours = torch.randint(COLOURS, (base,), generator=generator)
        colours[0] = 0
        with torch.no_grad():
            features.append(adapter(single(alphabet[colours]).replicate(times))[0])
        counts.append(base * times)
    return torch.stack(features).double(), torch.tensor(counts, dtype=torch.float64)


class ProbeResult(NamedTuple):
    """Held-out quality of the best probe: R² and median absolute error of log n, and the name of the probe."""

    r2: float
    log_error: float
    probe: str


def count_probe(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> ProbeResult:
    """Fit log n from features by ridge regression, and judge the fit on held-out samples.

    A count may be stored linearly (a sum), as a logarithm (a mass), as a power law, or distorted by later layers. So
    there are four probes: features to n, features to log n, log-features to log n, and a Gaussian kernel to log n.
    Probe, width and ridge are chosen on a third of the training samples; the held-out samples judge a single fit.

    Shapes:
        features ``[samples, dim]``, counts ``[samples]``.
    """
    features, counts = train
    third = features.size(0) // 3
    target = counts[:third].log()

    def error(candidate: tuple[str, float, float]) -> float:
        predicted = _predict(*candidate, features[third:], counts[third:], features[:third])
        squared = float((predicted - target).square().mean())
        return math.inf if math.isnan(squared) else squared

    best = min(CANDIDATES, key=error)
    truth = held_out[1].log()
    residual = _predict(*best, features, counts, held_out[0]) - truth
    r2 = 1.0 - float(residual.square().sum() / (truth - truth.mean()).square().sum())
    return ProbeResult(round(r2, DIGITS), round(float(residual.abs().median()), DIGITS), best[0])


def _predict(probe: str, width: float, ridge: float, features: Tensor, counts: Tensor, query: Tensor) -> Tensor:
    """Return the predicted log n of ``query``."""
    # A constant column contains rounding noise only; dividing by its spread would turn the noise into a feature.
    alive = features.std(0) > 1e-11 * (features.abs().amax(0) + 1e-300)
    features, query = features[:, alive], query[:, alive]
    if probe == "log-log":
        floor = 1e-12 * features.abs().amax(0) + 1e-300
        features, query = (torch.cat([part, (part.abs() + floor).log()], dim=1) for part in (features, query))
    mean, std = features.mean(0), features.std(0).clamp_min(1e-300)
    design, design_query = ((part - mean) / std for part in (features, query))
    if probe == "kernel":
        # The width is in units of the median squared distance to a subset of the samples.
        centres = design[::2]
        distance, distance_query = (torch.cdist(part, centres).square() for part in (design, design_query))
        scale = width * distance.median().clamp_min(1e-300)
        design, design_query = torch.exp(-distance / scale), torch.exp(-distance_query / scale)
    target = counts if probe == "linear" else counts.log()
    offset = target.mean()
    samples, dim = design.shape
    gram = design.T @ design + ridge * samples * torch.eye(dim, dtype=design.dtype)
    weight = torch.linalg.lstsq(gram, (design.T @ (target - offset)).unsqueeze(1)).solution.squeeze(1)
    predicted = design_query @ weight + offset
    return predicted.clamp_min(0.5).log() if probe == "linear" else predicted


def addressability(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Measure the rank of the target-by-source response, in messages.

    Nodes of one graph without edges are split into sources and targets, so no target has a direct path to a source.
    With R_j the Jacobian of target j's output by all source features, a homogeneous broadcast has R_j = J_j dz: every
    target sees the same global state through its own decoder, and together they see no more than its width.
    With M slots, target j sees sum_m rho_jm dz_m, and together they see M states. So, with rank at a stated tolerance,

        messages = rank([R_1; ...; R_n]) / max_j rank(R_j),

    and 1 if all targets together see no more than the width of one node. A readout has one target: one message.
    ``trials`` is not used: a rank is the same for almost every input, so one draw per scale is enough.

    Paper: def:effective-factorization.
    """
    generator = Generator().manual_seed(seed)
    x = torch.randn(2 * NODES, adapter.channels, generator=generator, dtype=torch.float64)
    results = []
    for scale in SCALES if adapter.channels <= WIDE else SCALES[:1]:
        response = _response(adapter, scale * x)
        spectrum = torch.linalg.svdvals(response.flatten(0, 1))
        # Singular values below this are rounding.
        floor = adapter.tolerance * spectrum[0].clamp_min(1e-300)
        together = int((spectrum > floor).sum())
        alone = int((torch.linalg.svdvals(response) > floor).sum(-1).max())
        results.append((_messages(together, alone, adapter), together, alone, spectrum, scale))
        if results[-1][0] >= NODES:
            break
    messages, together, alone, spectrum, scale = max(results, key=lambda result: result[0])
    singular_values = round_spectrum(spectrum)
    squared = sum(value**2 for value in singular_values)
    return Finding(
        name="addressability",
        verdict=_verdict(messages, adapter),
        value=float(messages),
        worst_case=f"features of scale {scale:g}",
        trials=len(results),
        explanation=f"rank of what all targets receive from {NODES} sources ({together}) over that of one target "
        f"({alone}); singular values above {adapter.tolerance:g} of the largest",
        details={
            "rank_together": together,
            "rank_of_one_target": alone,
            "limit": NODES,
            "effective_rank": round(sum(singular_values) ** 2 / max(squared, 1e-300), DIGITS),
            "singular_values": singular_values,
        },
    )


def round_spectrum(spectrum: Tensor) -> list[float]:
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

    grad = partial(torch.autograd.grad, flat, sources, retain_graph=True, materialize_grads=True)

    def backward(rows: Tensor) -> Tensor:
        try:
            return grad(rows, is_grads_batched=True)[0]
        except RuntimeError:  # an operation has no batching rule: use one backward pass per output number
            return torch.stack([grad(row)[0] for row in rows])

    jacobian = [backward(rows) for rows in torch.eye(flat.numel(), dtype=flat.dtype).split(ROWS_AT_ONCE)]
    return torch.cat(jacobian).double().reshape(*out.shape, -1)


def _messages(together: int, alone: int, adapter: Adapter) -> int:
    # A rectifier passes only a part of one shared state to each target; that is a broadcast, not an address.
    if together <= adapter.channels:
        return min(together, 1)
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


def _readout(name: str, explanation: str) -> Finding:
    return Finding(name, "a readout: nothing returns to the nodes", None, "none", 0, explanation)


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
        return _readout("separability", explanation)
    generator = Generator().manual_seed(seed)
    ratios: list[tuple[float, str]] = []
    for _ in range(trials):
        others = int(torch.randint(3, 12, (), generator=generator))
        targets, first, second = (
            torch.randn(nodes, adapter.channels, generator=generator, dtype=torch.float64)
            for nodes in (2, others, others)
        )
        with torch.no_grad():
            before, after = (adapter(single(torch.cat([targets, rest])))[:2] for rest in (first, second))
        change = after - before
        size = float(change.abs().max())
        # Ignore a change at the level of rounding: its mixed difference would be noise over noise.
        if size > adapter.tolerance * float(before.abs().max()):
            ratios.append((float((change[0] - change[1]).abs().max()) / size, f"{others} other nodes"))
    if not ratios:
        return Finding("separability", "nothing travels between nodes", None, "none", trials, explanation)
    (smallest, case), (largest, _) = (choose(ratios, key=lambda ratio: ratio[0]) for choose in (min, max))
    separable = largest <= adapter.tolerance
    return Finding(
        name="separability",
        verdict="separable: every node gets the same change" if separable else "joint: the change depends on the node",
        value=largest if separable else smallest,
        worst_case=case,
        trials=trials,
        explanation=explanation,
        details={"separable": separable, "smallest": smallest, "largest": largest},
    )


class _OnEdges(nn.Module):
    """An adapter as a model of features and edges, which PyG's measurement calls."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__()
        self.adapter = adapter

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.adapter(single(x, edge_index)).float()


def influence(adapter: Adapter, seed: int, trials: int) -> Finding:
    r"""Measure the influence of each hop on a path: PyG's ``total_influence``, from arXiv 2503.09008.

    .. math::
        I_k(v) = \sum_{u \,:\, d(u, v) = k} \lVert \partial f_v / \partial x_u \rVert_1, \qquad
        R = \operatorname{mean}_v \frac{\sum_k k \, I_k(v)}{\sum_k I_k(v)}

    One local layer reaches one hop. A global memory reaches the other end of the path in one call, whatever the edges.
    Every node is measured on one path, so ``trials`` is not used.
    """
    explanation = f"mean number of hops to what an output depends on (R), every node of a path of {PATH}"
    if not adapter.per_node:
        return _readout("influence", explanation)
    start = torch.arange(PATH - 1)
    edges = torch.stack([start, start + 1])
    # PyG's receptive field is computed in float32; the adapter casts the features to the precision of the module.
    x = torch.randn(PATH, adapter.channels, generator=Generator().manual_seed(seed))
    data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    # PyG draws the order of the nodes from the global generator and writes a progress bar.
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stderr(io.StringIO()):
        by_hop, breadth = total_influence(_OnEdges(adapter), data, PATH - 1, normalize=False, vectorize=False)
    share = by_hop / by_hop.sum()
    farthest = int((share > adapter.tolerance).nonzero().max())
    verdict = f"{breadth:.1f} hops on average, {farthest} of {PATH - 1} at most"
    return Finding(
        name="influence",
        verdict=verdict if farthest else "nothing travels between nodes",
        value=breadth,
        worst_case=f"a path of {PATH} nodes",
        trials=PATH,
        explanation=explanation,
        details={"share_by_hop": [round(float(value), 6) for value in share], "farthest": farthest},
    )
