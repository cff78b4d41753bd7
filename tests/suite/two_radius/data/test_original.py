from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.utils import is_undirected

from mooring.suite.two_radius.data import CENTRE, OriginalTask

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
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        OriginalTask(**{"num_identifiers": 7, **settings})
    assert str(error.value) == message


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: unknown split 'diagnostic'. Choose one of train, validation, "):
        TASK.split(0, "diagnostic")
