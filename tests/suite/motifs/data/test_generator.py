"""Census graphs hold what they claim, and jitter keeps every label true."""

import itertools
from collections import Counter
from dataclasses import fields, replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.suite.motifs.data import DISTRACTORS, MOTIFS, SPLITS, MotifSettings, generate
from mooring.suite.motifs.data.generator import _plan, retype, rewire

SETTINGS = MotifSettings()
SEED = 7


def many(split: str, number: int = 31, settings: MotifSettings = SETTINGS):
    return [generate(settings, split, index, SEED) for index in range(number)]


def background_size(graph) -> int:
    sizes = np.array([3, 4, 5, 4, 4, 4]), np.array([4, 5, 4, 5, 5, 4])
    return graph.num_nodes - int(graph.counts @ sizes[0] + graph.distractors @ sizes[1])


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


@pytest.mark.parametrize("split", SPLITS)
def test_a_graph_is_a_function_of_seed_split_and_index(split):
    one = generate(SETTINGS, split, index=5, seed=SEED)
    assert same(one, generate(SETTINGS, split, index=5, seed=SEED))
    assert not same(one, generate(SETTINGS, split, index=6, seed=SEED))
    assert not same(one, generate(SETTINGS, split, index=5, seed=SEED + 1))


@pytest.mark.parametrize("split", SPLITS)
def test_arrays_have_the_types_that_a_graph_documents(split):
    graph = generate(SETTINGS, split, index=5, seed=SEED)
    types = {"types": np.uint8, "marker": np.bool_, "planted": np.uint8}
    types |= dict.fromkeys(("edges", "counts", "distractors"), np.int32)
    assert {name: getattr(graph, name).dtype for name in types} == types


def test_train_validation_and_iid_are_different_samples():
    one, two, three = (generate(SETTINGS, split, index=0, seed=SEED) for split in ("train", "validation", "iid"))
    assert not same(one, two)
    assert not same(one, three)
    assert not same(two, three)


def test_iid_counts_cover_their_range():
    counts = np.stack([graph.counts for graph in many("iid", 101)])
    assert counts.min() == 0
    assert counts.max() == SETTINGS.max_count
    sizes = [background_size(graph) for graph in many("iid", 101)]
    assert min(sizes) >= SETTINGS.background[0]
    assert max(sizes) <= SETTINGS.background[1]


def test_split_counts_enlarges_the_counts_only():
    for graph in many("counts"):
        assert graph.counts.min() >= SETTINGS.ood_counts[0]
        assert graph.counts.max() <= SETTINGS.ood_counts[1]
        assert graph.distractors.max() <= SETTINGS.max_distractors
        assert background_size(graph) <= SETTINGS.background[1]


def test_split_background_enlarges_the_background_only():
    for graph in many("background"):
        assert SETTINGS.ood_background[0] <= background_size(graph) <= SETTINGS.ood_background[1]
        assert graph.counts.max() <= SETTINGS.max_count


def test_split_mixture_changes_the_company_of_counts_that_were_all_seen():
    for graph in many("mixture"):
        assert graph.counts.max() <= SETTINGS.max_count
        assert sorted(graph.counts)[-2] > SETTINGS.max_count // 2
        assert sorted(graph.counts)[-3] <= 1
        assert np.count_nonzero(graph.distractors) == 1
        assert background_size(graph) <= SETTINGS.background[1]


def test_split_replicated_is_copies_of_the_iid_graph():
    numbers = set()
    for index, graph in enumerate(many("replicated")):
        base = generate(SETTINGS, "iid", index, SEED)
        assert np.array_equal(graph.types, np.tile(base.types, graph.copies))
        assert np.array_equal(graph.marker, np.tile(base.marker, graph.copies))
        assert np.array_equal(graph.edges[:, : base.edges.shape[1]], base.edges)
        assert np.array_equal(graph.counts, graph.copies * base.counts)
        numbers.add(graph.copies)
    assert numbers == {2, 3}


def test_split_jittered_keeps_labels_and_degrees_of_the_copies_but_not_the_copies():
    for index, graph in enumerate(many("jittered", 17)):
        base = generate(SETTINGS, "iid", index, SEED)
        assert np.array_equal(graph.counts, graph.copies * base.counts)
        degrees = np.sort(np.bincount(graph.edges.ravel(), minlength=graph.num_nodes))
        assert np.array_equal(degrees, np.sort(np.tile(np.bincount(base.edges.ravel()), graph.copies)))
        assert not np.array_equal(graph.types[: base.num_nodes], graph.types[base.num_nodes : 2 * base.num_nodes])


def test_node_numbers_say_nothing_about_gadgets():
    positions = np.concatenate([np.flatnonzero(graph.marker) / graph.num_nodes for graph in many("iid", 101)])
    assert positions.mean() == pytest.approx(0.5, abs=0.02)


def test_a_background_without_extra_edges_is_a_tree():
    settings = MotifSettings(extra_edges=0.0, max_distractors=0)
    for graph in many("iid", 11, settings):
        gadget_edges = int(graph.counts @ np.array([3, 4, 4, 3, 6, 5]))
        assert graph.edges.shape[1] == gadget_edges + graph.counts.sum() + background_size(graph) - 1


def test_target_is_log_one_plus_count():
    graph = generate(SETTINGS, "counts", index=0, seed=SEED)
    assert np.allclose(np.expm1(graph.target), graph.counts, rtol=1e-5)


@pytest.mark.parametrize(
    ("split", "index", "message"), [("test", 0, "unknown split 'test'"), ("iid", -1, "must not be negative")]
)
def test_what_does_not_exist_is_refused(split, index, message):
    with pytest.raises(ValueError, match=message):
        generate(SETTINGS, split, index, SEED)


SIGHTED = MotifSettings(num_types=256, retyped=0.0)
"""So many types that a node is all but known by its own and those around it, and none is drawn again."""


def environments(graph) -> Counter:
    """Each node's type with the types of its neighbours: what rewiring changes and renumbering does not."""
    around = [[] for _ in range(graph.num_nodes)]
    for a, b in graph.edges.T.tolist():
        around[a].append(int(graph.types[b]))
        around[b].append(int(graph.types[a]))
    return Counter((int(own), *sorted(others)) for own, others in zip(graph.types, around, strict=True))


def first_copy(graph, num_nodes: int):
    """The first ``num_nodes`` nodes, which are one copy."""
    edges = graph.edges[:, (graph.edges < num_nodes).all(axis=0)]
    return replace(graph, types=graph.types[:num_nodes], edges=edges)


def unchanged_environments(settings: MotifSettings, split: str, index: int) -> float:
    """Share of a graph's nodes whose type and neighbours' types are found again in the first copy of it."""
    base = generate(settings, "iid", index, SEED)
    copy = first_copy(generate(settings, split, index, SEED), base.num_nodes)
    return (environments(base) & environments(copy)).total() / base.num_nodes


def test_jittered_copies_are_rewired_outside_the_gadgets_by_the_share_set():
    for index in range(5):
        base = generate(SIGHTED, "iid", index, SEED)
        gadget_edges = base.counts @ np.array([len(shape.edges) for shape in MOTIFS])
        gadget_edges += base.distractors @ np.array([len(shape.edges) for shape in DISTRACTORS])
        frame_edges = base.edges.shape[1] - int(gadget_edges)
        # A swap changes the neighbours of at most four nodes, and of nearly four where swaps do not meet.
        swaps = round(SIGHTED.rewired * frame_edges)
        changed = (1 - unchanged_environments(SIGHTED, "jittered", index)) * base.num_nodes
        assert 1.5 * swaps < changed <= 4 * swaps
        # Controls: copies that are not jittered, and a jitter that is told to swap nothing.
        assert unchanged_environments(SIGHTED, "replicated", index) == 1
        assert unchanged_environments(replace(SIGHTED, rewired=0.0), "jittered", index) == 1


def test_every_copy_is_jittered_on_its_own():
    base = generate(SIGHTED, "iid", 0, SEED)
    graph = generate(SIGHTED, "jittered", 0, SEED)
    second = replace(
        graph,
        types=graph.types[base.num_nodes : 2 * base.num_nodes],
        edges=graph.edges[:, (graph.edges // base.num_nodes == 1).all(axis=0)] - base.num_nodes,
    )
    shared = environments(first_copy(graph, base.num_nodes)) & environments(second)
    assert shared.total() < environments(base).total() - 10


def test_jittered_copies_are_retyped_by_the_share_set():
    settings = MotifSettings(rewired=0.0, num_types=256, retyped=0.3)
    kept = total = 0
    for index in range(5):
        base = generate(settings, "iid", index, SEED)
        copy = first_copy(generate(settings, "jittered", index, SEED), base.num_nodes)
        kept += (Counter(base.types.tolist()) & Counter(copy.types.tolist())).total()
        total += base.num_nodes
        same_types = generate(replace(settings, retyped=0.0), "jittered", index, SEED).types[: base.num_nodes]
        assert Counter(base.types.tolist()) == Counter(same_types.tolist())
    # A fresh type may by chance be one that another node gave up.
    assert 0.7 - 0.05 < kept / total < 0.7 + 0.3 * 0.5


def test_the_defaults_that_were_published_rewire_and_retype():
    assert (SETTINGS.rewired, SETTINGS.retyped, SETTINGS.copies) == (0.3, 0.2, (2, 3))
    assert (SETTINGS.max_count, SETTINGS.max_distractors, SETTINGS.num_types) == (6, 2, 4)
    assert (SETTINGS.background, SETTINGS.extra_edges) == ((16, 64), 0.5)
    assert (SETTINGS.ood_counts, SETTINGS.ood_background) == ((7, 18), (128, 256))


def test_gadgets_hang_from_any_background_node():
    plans = [_plan(SETTINGS, "iid", np.random.default_rng(index)) for index in range(101)]
    places = [plan.frame[0, -len(plan.roots) :] / plan.num_background for plan in plans]
    hung = np.concatenate(places)
    assert hung.min() == 0
    assert hung.max() > 1 - 2 / SETTINGS.background[0]
    assert hung.mean() == pytest.approx(0.5, abs=0.03)
    # The first and the last node of a background carry as many gadgets as chance says.
    first = sum(int((place == 0).sum()) for place in places)
    expected = sum(len(plan.roots) / plan.num_background for plan in plans)
    assert first == pytest.approx(expected, rel=0.3)


def frame_of(num_background: int, num_roots: int, rng: np.random.Generator) -> np.ndarray:
    graph = nx.connected_watts_strogatz_graph(num_background, 4, 0.5, seed=int(rng.integers(1000)))
    bridges = [(int(rng.integers(num_background)), num_background + root) for root in range(num_roots)]
    return np.array([*graph.edges, *bridges], dtype=np.int32).T


def edge_set(frame: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(edge) for edge in frame.T.tolist()}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), num_background=st.integers(7, 29), num_roots=st.integers(0, 13))
def test_rewiring_keeps_what_the_labels_rest_on(seed, num_background, num_roots):
    rng = np.random.default_rng(seed)
    before = frame_of(num_background, num_roots, rng)
    after = rewire(before, num_background, num_swaps=11, rng=rng)
    assert np.array_equal(np.bincount(before.ravel()), np.bincount(after.ravel()))
    assert len(edge_set(after)) == before.shape[1]
    assert all(len(edge) == 2 for edge in edge_set(after))
    assert nx.is_connected(nx.Graph(after.T.tolist()))
    assert (after.min(axis=0) < num_background).all()


def test_rewiring_moves_edges_and_bridges():
    rng = np.random.default_rng(3)
    before = frame_of(23, 7, rng)
    after = rewire(before, 23, num_swaps=17, rng=rng)
    moved = edge_set(before) - edge_set(after)
    assert len(moved) > 17
    assert any(max(edge) >= 23 for edge in moved)


@pytest.mark.parametrize("turned", list(itertools.product([False, True], repeat=2)))
def test_a_swap_takes_any_two_edges_whichever_way_they_are_listed(turned):
    # A path of four allows one swap: its two outer edges, the first and the second listed, exchange their outer ends.
    outer = [edge[::-1] if turn else edge for edge, turn in zip([(0, 1), (2, 3)], turned, strict=True)]
    path = np.array([*outer, (1, 2)], dtype=np.int32).T
    found = {frozenset(edge_set(rewire(path, 4, 1, np.random.default_rng(seed)))) for seed in range(23)}
    exchanged = frozenset(map(frozenset, [(0, 2), (2, 1), (1, 3)]))
    assert found == {frozenset(edge_set(path)), exchanged}


def test_a_frame_that_allows_no_swap_is_left_alone():
    star = np.array([[0] * 7, list(range(1, 8))], dtype=np.int32)
    assert edge_set(rewire(star, 8, num_swaps=5, rng=np.random.default_rng(0))) == edge_set(star)


def test_a_frame_of_one_edge_is_left_alone():
    edge = np.array([[0], [1]], dtype=np.int32)
    assert edge_set(rewire(edge, 2, num_swaps=5, rng=np.random.default_rng(0))) == edge_set(edge)


def test_retype_changes_the_share_it_says():
    types = np.zeros(20_011, dtype=np.uint8)
    changed = (retype(types, 4, 0.2, np.random.default_rng(5)) != 0).mean()
    assert changed == pytest.approx(0.2 * 3 / 4, abs=0.01)


def test_no_more_swaps_are_made_than_asked_for():
    rng = np.random.default_rng(3)
    before = frame_of(23, 7, rng)
    for num_swaps in (0, 1, 2, 3):
        moved = edge_set(before) - edge_set(rewire(before, 23, num_swaps, rng))
        # A swap replaces two edges; a later one may replace an edge that is new.
        assert num_swaps <= len(moved) <= 2 * num_swaps
