"""Injectivity of the anchored read on bounded multisets, so that it refines colours as 1-WL does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence

import torch
from jaxtyping import Float64, Int64
from torch import Generator, Tensor

from mooring.ops import SlotState, anchored, write
from mooring.theory.claim import Evidence, claim
from mooring.theory.instances import every_counted, sampled_counted


def refine(colors: Sequence[Hashable], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Run one round of 1-WL: nodes share a colour if their colours and multisets of in-neighbour colours agree.

    Implemented with dictionaries and sorted tuples, so that it shares no code with the anchored read. Edges are
    directed (from, to) pairs.
    """
    names: dict[Hashable, int] = {}
    plain = [names.setdefault(color, len(names)) for color in colors]
    neighbours: list[list[int]] = [[] for _ in colors]
    for source, target in edges:
        neighbours[target].append(plain[source])
    refined: dict[tuple[int, tuple[int, ...]], int] = {}
    return [
        refined.setdefault((color, tuple(sorted(others))), len(refined))
        for color, others in zip(plain, neighbours, strict=True)
    ]


def same_partition(first: Sequence[Hashable], second: Sequence[Hashable]) -> bool:
    """Return whether two colourings group the nodes in the same way, regardless of the names of the colours."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


Read = Callable[[SlotState], Float64[Tensor, "graphs dim"]]


def with_unit_anchor(state: SlotState) -> Float64[Tensor, "graphs slots dim"]:
    """Add the proofs' anchor to every slot of one head: logit 0, and value 1 in coordinate 0, which no node uses."""
    slots, _, dim = state.content.shape[1:]
    value = torch.nn.functional.one_hot(torch.tensor(0), dim).double().expand(slots, 1, -1)
    return anchored(state, torch.zeros(slots, 1, dtype=torch.float64), value)[:, :, 0]


def anchored_read(state: SlotState) -> Float64[Tensor, "graphs dim"]:
    """Return the anchored read of the only slot."""
    return with_unit_anchor(state)[:, 0]


def crowded_read(state: SlotState) -> Float64[Tensor, "graphs dim"]:
    """Return an injective read whose histogram has one node too many of the first colour."""
    output = anchored_read(state)
    return torch.cat([output[:, :1], output[:, 1:2] + output[:, :1], output[:, 2:]], dim=1)


def normalised_read(state: SlotState) -> Float64[Tensor, "graphs dim"]:
    """Return the colour proportions alone."""
    return state.content[:, 0, 0]


def color_state(color: Int64[Tensor, " nodes"], group: Int64[Tensor, " nodes"], colors: int, groups: int) -> SlotState:
    """Return the state of one slot per group: scores are 0, colours one-hot after the anchor's coordinate."""
    value = torch.nn.functional.one_hot(color + 1, colors + 1).double()
    key = torch.zeros(len(color), 1, 1, dtype=torch.float64)
    return write(torch.zeros(1, 1, 1, dtype=torch.float64), key, value.unsqueeze(1), group, num_graphs=groups)


def histogram(output: Float64[Tensor, "graphs dim"]) -> Float64[Tensor, "graphs colors"]:
    """Return ``|X| mu(X)``, mass times proportions, from the anchored output alone, as the proof does."""
    # z_color = (1 - share) mu, |X| = (1 - share) / share; their product leaves a single division.
    return output[:, 1:] / output[:, :1]


def all_multisets(colors: int, size: int) -> list[tuple[int, ...]]:
    """Return every nonempty multiset of at most ``size`` elements over an alphabet."""
    sizes = range(1, size + 1)
    return [each for count in sizes for each in itertools.combinations_with_replacement(range(colors), count)]


@claim(
    "thm:wlinjective",
    "The anchored read is injective on all bounded multisets; its output gives the exact histogram.",
    subject=anchored_read,
    controls={
        "premise removed: the normalised read, which a multiset shares with its replication": normalised_read,
        "an injective read whose histogram has one node too many": crowded_read,
    },
    margin_means="smallest distance between the outputs of two different multisets",
    instances=60,
    least=2,
)
def injectivity(read: Read, instances: int, generator: Generator) -> Evidence:
    """Check that no two multisets share an output. ``instances`` caps the sizes of the multisets."""
    examined, closest, worst = 0, math.inf, 0.0
    for colors, size in ((1, 60), (2, 40), (3, 16), (4, 11), (6, 7)):
        multisets = all_multisets(colors, min(size, instances))
        group = torch.arange(len(multisets)).repeat_interleave(torch.tensor([len(each) for each in multisets]))
        color = torch.tensor([element for multiset in multisets for element in multiset])
        order = torch.randperm(len(color), generator=generator)
        output = read(color_state(color[order], group[order], colors, len(multisets)))
        examined += len(multisets)
        distance, pair = torch.pdist(output).min(dim=0)
        closest = min(closest, float(distance))
        # Outputs of different multisets are rationals of small denominators, so they differ by much more than this.
        if closest < 1e-9:
            first, second = (multisets[row] for row in torch.triu_indices(len(output), len(output), 1)[:, pair])
            return Evidence(False, closest, examined, f"{first} and {second} give the same output")
        truth = torch.zeros(len(multisets), colors, dtype=torch.float64)
        truth.index_put_((group, color), torch.ones(len(color), dtype=torch.float64), accumulate=True)
        worst = max(worst, float((histogram(output) - truth).abs().max()))
    note = f"histograms recovered within {worst:.1e}; closest two outputs are {closest:.1e} apart"
    return Evidence(worst < 0.5, closest, examined, note)


def exact_histogram(state: SlotState) -> Float64[Tensor, "graphs colors"]:
    """Return the integer histogram, decoded from the anchored read as in the proof."""
    return histogram(anchored_read(state)).round()


def proportions(state: SlotState) -> Float64[Tensor, "graphs colors"]:
    """Return the normalised read as integers, fine enough that only equal proportions give equal integers."""
    return (normalised_read(state) * 2**30).round()


def slot_refine(read: Read, color: Int64[Tensor, " nodes"], edges: Int64[Tensor, "2 edges"]) -> Int64[Tensor, " nodes"]:
    """Run one refinement in which every node is a slot to which its neighbours write."""
    output = read(color_state(color[edges[0]], edges[1], int(color.max()) + 1, len(color)))
    return torch.unique(torch.cat([color.unsqueeze(1), output.long()], dim=1), dim=0, return_inverse=True)[1]


@claim(
    "thm:wlinjective.refinement",
    "Anchored reads of neighbourhoods refine colours exactly as 1-WL, round after round.",
    subject=exact_histogram,
    controls={"premise removed: neighbourhoods read without the anchor": proportions},
    margin_means="refinement rounds whose partition was the reference's",
    instances=150,
)
def refinement(read: Read, instances: int, generator: Generator) -> Evidence:
    """Check on random graphs that every round's partition equals the reference 1-WL's, until it is stable."""
    rounds = 0
    for graph in range(instances):
        nodes = int(torch.randint(2, 31, (), generator=generator))
        adjacency = (torch.rand(nodes, nodes, generator=generator) < 3 / nodes).triu(1)
        edges = (adjacency | adjacency.T).nonzero().T
        color = torch.randint(int(torch.randint(1, 4, (), generator=generator)), (nodes,), generator=generator)
        color = torch.unique(color, return_inverse=True)[1]
        reference, num_colors = color.tolist(), 0
        pairs = [(int(source), int(target)) for source, target in edges.T]
        while len(set(reference)) > num_colors:
            num_colors = len(set(reference))
            reference, color = refine(reference, pairs), slot_refine(read, color, edges)
            rounds += 1
            if not same_partition(reference, color.tolist()):
                note = f"graph {graph}: {len(set(color.tolist()))} colours where 1-WL has {len(set(reference))}"
                return Evidence(False, float(rounds), rounds, note)
    return Evidence(True, float(rounds), rounds, f"{rounds} refinements of {instances} graphs, every partition equal")


@claim(
    "cor:countedwl.wl",
    "Coloured 1-WL solves counted Two-Radius in two rounds.",
    subject=2,
    controls={"premise removed: one round, in which nothing has crossed the centre": 1},
    margin_means="targets whose colour does not determine their answer",
    instances=60,
)
def coloured_refinement(rounds: int, instances: int, generator: Generator) -> Evidence:
    """Check that after ``rounds`` refinements of all instances at once, a target's colour determines its answer."""
    examined, conflicts = 0, 0
    for source in (every_counted(3, 2, 2, generator), sampled_counted(5, 3, instances, generator)):
        copies = source.copied()
        centre, first_target = len(copies.graph), len(copies.graph) + source.num_graphs
        # A source is coloured by its identifier and label, a target by its identifier.
        colors: list[Hashable] = [
            *zip(copies.identifier.tolist(), copies.label.tolist(), strict=True),
            *["centre"] * source.num_graphs,
            *source.identifier.tolist(),
        ]
        edges = [(node, centre + graph) for node, graph in enumerate(copies.graph.tolist())]
        edges += [(centre + graph, first_target + node) for node, graph in enumerate(source.graph.tolist())]
        for _ in range(rounds):
            colors = [*refine(colors, edges)]
        answers: dict[Hashable, tuple[int, int]] = {}
        expected = zip(source.label.tolist(), source.count.tolist(), strict=True)
        for color, answer in zip(colors[first_target:], expected, strict=True):
            conflicts += answers.setdefault(color, answer) != answer
        examined += source.num_graphs
    note = f"{conflicts} targets share a colour with a target of another answer"
    return Evidence(conflicts == 0, float(conflicts), examined, note)
