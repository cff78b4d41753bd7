"""What each of the three tasks draws, asks and refuses."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import is_undirected

from mooring.suite.two_radius.data import CENTRE, CountedTask, OriginalTask, PermutationTask, TwoRadiusBatch, stream

FULL = CountedTask(num_identifiers=5, max_base_count=3, scales=(1, 2, 7), num_centres=2, rendering="full")
COLLAPSED = replace(FULL, rendering="collapsed")
BOTH = pytest.mark.parametrize("task", [FULL, COLLAPSED], ids=["full", "collapsed"])


def table(batch: TwoRadiusBatch, graph: int) -> dict[tuple[int, int], int]:
    """(identifier, label) -> number of source copies in one graph."""
    mask = batch.sources & (batch.batch == graph)
    counts: dict[tuple[int, int], int] = {}
    for i, label, copies in zip(batch.identifier[mask], batch.label[mask], batch.multiplicity[mask], strict=True):
        counts[int(i), int(label)] = counts.get((int(i), int(label)), 0) + int(copies)
    return counts


@BOTH
def test_targets_answer_what_the_sources_hold(task: CountedTask) -> None:
    batch = task.batch(11, stream(0, "train"))
    y_label, y_count = batch.y_label.view(33, 5), batch.y_count.view(33, 5)
    target_identifier = batch.identifier[batch.targets].view(33, 5)
    for graph in range(33):
        answers = zip(target_identifier[graph], y_label[graph], y_count[graph], strict=True)
        assert table(batch, graph) == {(int(i), int(label)): int(count) for i, label, count in answers}


@BOTH
def test_graphs_of_one_assignment_differ_in_scale_only(task: CountedTask) -> None:
    batch = task.batch(3, stream(0, "train"))
    assert batch.scale.tolist() == [1, 2, 7] * 3
    for base in range(3):
        once = table(batch, 3 * base)
        assert len(once) == len({label for _, label in once}) == 5
        for s, scale in enumerate((1, 2, 7)):
            assert table(batch, 3 * base + s) == {kind: scale * count for kind, count in once.items()}


def test_full_rendering_gives_every_copy_a_node_and_collapsed_none() -> None:
    full, collapsed = FULL.batch(3, stream(0, "train")), COLLAPSED.batch(3, stream(0, "train"))
    assert full.multiplicity.eq(1).all()
    assert int(full.sources.sum()) == int(full.y_count.sum())
    assert int(collapsed.sources.sum()) == 9 * 5
    assert int(collapsed.multiplicity[collapsed.sources].sum()) == int(full.sources.sum())
    assert collapsed.multiplicity[~collapsed.sources].eq(1).all()


def test_renderings_of_one_stream_ask_the_same_questions_in_the_same_order() -> None:
    full, collapsed = FULL.batch(3, stream(0, "train")), COLLAPSED.batch(3, stream(0, "train"))
    assert torch.equal(full.identifier[full.targets], collapsed.identifier[collapsed.targets])
    assert torch.equal(full.y_label, collapsed.y_label)
    assert torch.equal(full.y_count, collapsed.y_count)


@BOTH
def test_degrees(task: CountedTask) -> None:
    batch = task.batch(3, stream(0, "train"))
    degree = torch.zeros(batch.num_nodes).index_add(0, batch.edge_index[1], torch.ones(batch.edge_index.size(1)))
    assert degree[batch.sources].eq(0).all()
    assert degree[batch.targets].eq(2).all()
    num_sources = torch.bincount(batch.batch[batch.sources])
    centre = batch.role == CENTRE
    assert torch.equal(degree[centre].long(), num_sources[batch.batch[centre]])


@BOTH
def test_only_sources_carry_labels(task: CountedTask) -> None:
    batch = task.batch(3, stream(0, "train"))
    assert batch.label[~batch.sources].eq(task.labels).all()
    assert batch.label[batch.sources].lt(task.labels).all()


@BOTH
def test_orders_are_shuffled_in_every_graph(task: CountedTask) -> None:
    batch = task.batch(31, stream(0, "train"))
    targets = batch.identifier[batch.targets].view(-1, 5)
    assert len({tuple(row) for row in targets.tolist()}) > 40
    sources = [tuple(batch.identifier[batch.sources & (batch.batch == g)].tolist()) for g in range(93)]
    assert len(set(sources)) > 40
    assert sum(list(order) == sorted(order) for order in sources) < 10


@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 300), step=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_pure_in_the_key(seed: int, epoch: int, step: int) -> None:
    one, two, other = (FULL.batch(2, stream(seed, "train", epoch, step + offset)) for offset in (0, 0, 1))
    for field in fields(TwoRadiusBatch):
        value = getattr(one, field.name)
        same = torch.equal(value, getattr(two, field.name)) if isinstance(value, Tensor) else True
        assert same, field.name
    assert not torch.equal(one.y_label, other.y_label) or not torch.equal(one.y_count, other.y_count)


def test_paper_setting_is_the_default() -> None:
    batch = CountedTask().batch(32, stream(0, "train"))
    assert batch.num_graphs == 96
    assert CountedTask().counts == 12
    largest = int(torch.bincount(batch.batch).max())
    assert largest <= 157
    assert set(batch.y_count.tolist()) == {1, 2, 3, 4, 6, 8, 9, 12}


def test_base_counts_and_labels_are_uniform() -> None:
    batch = CountedTask(scales=(1,), rendering="collapsed").batch(2003, stream(0, "train"))
    frequency = torch.bincount(batch.y_count, minlength=5)[1:] / batch.y_count.numel()
    torch.testing.assert_close(frequency, torch.full((4,), 0.25), atol=0.01, rtol=0)
    of_first = batch.y_label[batch.identifier[batch.targets] == 0]
    torch.testing.assert_close(torch.bincount(of_first) / 2003, torch.full((12,), 1 / 12), atol=0.025, rtol=0)


def test_independent_labels_may_repeat_and_be_fewer() -> None:
    task = CountedTask(num_identifiers=7, num_labels=3, distinct_labels=False)
    batch = task.batch(5, stream(0, "train"))
    assert set(batch.y_label.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("settings", [{"num_identifiers": 1}, {"num_labels": 1, "distinct_labels": False}])
def test_one_label_is_enough(settings: dict[str, Any]) -> None:
    batch = CountedTask(**settings).batch(3, stream(0, "train"))
    assert set(batch.y_label.tolist()) == {0}
    assert batch.label[batch.targets].eq(1).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"scales": (1, 2, 4), "num_counts": 12},
            "two-radius: base count 4 at scale 4 gives 16, above num_counts=12. Raise num_counts or drop a scale.",
        ),
        (
            {"num_labels": 10},
            "two-radius: 12 identifiers need as many distinct labels, but num_labels=10. "
            "Raise num_labels or lower num_identifiers.",
        ),
        ({"num_identifiers": 0}, "two-radius: num_identifiers=0, expected at least 1."),
        ({"num_centres": 0}, "two-radius: num_centres=0, expected at least 1."),
        ({"max_base_count": -1}, "two-radius: max_base_count=-1, expected at least 1."),
        ({"scales": ()}, "two-radius: scales=(), expected one or more scales of at least 1."),
        ({"scales": (0, 2)}, "two-radius: scales=(0, 2), expected one or more scales of at least 1."),
        ({"scales": (2, 2)}, "two-radius: scales=(2, 2) names a scale twice. Drop the repetition."),
        ({"num_labels": 0, "distinct_labels": False}, "two-radius: num_labels=0, expected at least 1."),
        ({"rendering": "padded"}, "two-radius: rendering='padded', expected 'full' or 'collapsed'."),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        CountedTask(**settings)
    assert str(error.value) == message


def test_labels_form_a_permutation_and_nothing_repeats() -> None:
    batch = PermutationTask(7, num_centres=2).batch(5, stream(0, "train"))
    assert batch.num_graphs == 5
    assert batch.num_nodes == 5 * (2 * 7 + 2)
    assert torch.equal(batch.y_label.view(5, 7).sort(dim=1).values, torch.arange(7).expand(5, 7))
    assert batch.y_count.eq(1).all()
    assert batch.multiplicity.eq(1).all()
    assert len({tuple(row) for row in batch.y_label.view(5, 7).tolist()}) == 5


def test_an_impossible_permutation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: num_identifiers=0, expected at least 1\.$"):
        PermutationTask(0)


TASK = OriginalTask(7, num_classes=5, num_centres=3, sizes=(11, 3, 2))


def test_graph_facts() -> None:
    batch = TASK.split(0, "train").batch(slice(None))
    assert batch.num_graphs == 11
    assert batch.num_nodes == 11 * (2 * 7 + 3)
    assert batch.edge_index.size(1) == 11 * 2 * (2 * 7 * 3)
    assert is_undirected(batch.edge_index, num_nodes=batch.num_nodes)
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    assert batch.label[batch.role == CENTRE].eq(0).all()
    assert batch.label[batch.targets].eq(4).all()


def test_features_are_one_hot_identifier_and_label() -> None:
    batch = TASK.split(0, "train").batch(slice(0, 2))
    features = TASK.features(batch)
    assert features.shape == (34, 7 + 3 + 5)
    assert torch.equal(features[:, :10].argmax(dim=1), batch.identifier)
    assert torch.equal(features[:, 10:].argmax(dim=1), batch.label)
    assert torch.equal(features.sum(dim=1), torch.full((34,), 2.0))


def test_target_answers_the_label_of_its_source() -> None:
    batch = TASK.split(0, "test").batch(slice(None))
    sources = batch.identifier[batch.sources].view(2, 7)
    label = batch.label[batch.sources].view(2, 7)
    by_identifier = torch.empty_like(label).scatter(1, sources, label)
    assert torch.equal(batch.y_label.view(2, 7), by_identifier.gather(1, batch.identifier[batch.targets].view(2, 7)))
    assert not torch.equal(sources, batch.identifier[batch.targets].view(2, 7))


def test_splits_are_finite_disjoint_in_stream_and_pure_in_the_seed() -> None:
    train, again = TASK.split(1, "train"), TASK.split(1, "train")
    assert [len(TASK.split(1, name)) for name in ("train", "validation", "test")] == [11, 3, 2]
    assert (train.label == again.label).all()
    assert (train.target_identifier == again.target_identifier).all()
    assert not (train.label[:3] == TASK.split(1, "validation").label).all()
    assert not (train.label == TASK.split(2, "train").label).all()


def test_rows_come_in_the_order_asked_for() -> None:
    split = TASK.split(0, "train")
    batch, other = split.batch(np.array([5, 2])), split.batch(slice(2, 3))
    assert torch.equal(batch.y_label.view(2, 7)[1], other.y_label)


def test_published_sizes_are_the_default() -> None:
    task = OriginalTask(10)
    assert (task.num_classes, task.num_centres, task.sizes) == (10, 1, (7000, 700, 700))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_identifiers": 1},
            "two-radius: num_identifiers=1, expected at least 2: with one source there is nothing to address.",
        ),
        ({"num_classes": 1}, "two-radius: num_classes=1, expected at least 2."),
        ({"num_centres": 0}, "two-radius: num_centres=0, expected at least 1."),
        (
            {"sizes": (5, 0, 5)},
            "two-radius: sizes=(5, 0, 5), expected three sizes of at least 1 (training, validation, test).",
        ),
    ],
)
def test_impossible_data_sets_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        OriginalTask(**{"num_identifiers": 7, **settings})
    assert str(error.value) == message


def test_one_graph_per_split_is_enough() -> None:
    assert [len(OriginalTask(5, sizes=(1, 1, 1)).split(0, name)) for name in ("train", "validation", "test")] == [1] * 3


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: unknown split 'diagnostic'. Choose one of train, validation, "):
        TASK.split(0, "diagnostic")
