"""Random streams, and how the nodes of a batch are laid out."""

import numpy as np
import pytest
import torch

from mooring.suite.two_radius.data import CENTRE, SOURCE, TARGET, CountedTask, TwoRadiusBatch, stream
from mooring.suite.two_radius.data.batch import Sources, lay_out, shuffled_rows


def draw(*key: object) -> int:
    return int(stream(*key).integers(2**62))  # type: ignore[arg-type]


def test_same_key_same_stream() -> None:
    assert draw(3, "train", 5, 7) == draw(3, "train", 5, 7)


@pytest.mark.parametrize(
    "other", [(2, "train", 5, 7), (3, "validation", 5, 7), (3, "train", 6, 7), (3, "train", 5, 8), (3, "train", 7, 5)]
)
def test_every_part_of_the_key_matters(other: tuple[object, ...]) -> None:
    assert draw(*other) != draw(3, "train", 5, 7)


def test_wide_seeds_do_not_run_into_the_key() -> None:
    assert draw(2**32, "train", 0, 0) != draw(0, "validation", 0, 0)


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: unknown split 'dev'. Choose one of train, validation, test, "):
        stream(0, "dev")  # type: ignore[arg-type]


def two_graphs(reverse_edges: bool = False) -> TwoRadiusBatch:
    """Graph 0 with sources 1, 0, 1 and graph 1 with sources 0, 1; two targets and two centres each."""
    sources = Sources(
        graph=np.array([0, 0, 0, 1, 1]),
        identifier=np.array([1, 0, 1, 0, 1]),
        label=np.array([5, 4, 5, 3, 6]),
        multiplicity=np.array([1, 1, 1, 7, 1]),
    )
    return lay_out(
        sources,
        target_identifier=np.array([[0, 1], [1, 0]]),
        answer_label=np.array([[4, 5], [3, 6]]),
        answer_count=np.array([[1, 2], [7, 1]]),
        scale=np.array([1, 2]),
        num_centres=2,
        centre_label=8,
        target_label=9,
        reverse_edges=reverse_edges,
    )


def test_nodes_are_laid_out_source_centre_target() -> None:
    batch = two_graphs()
    assert (
        batch.role.tolist() == [SOURCE] * 3 + [CENTRE] * 2 + [TARGET] * 2 + [SOURCE] * 2 + [CENTRE] * 2 + [TARGET] * 2
    )
    assert batch.identifier.tolist() == [1, 0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 1, 0]
    assert batch.label.tolist() == [5, 4, 5, 8, 8, 9, 9, 3, 6, 8, 8, 9, 9]
    assert batch.batch.tolist() == [0] * 7 + [1] * 6
    assert batch.y_label.tolist() == [4, 5, 6, 3]
    assert batch.y_count.tolist() == [1, 2, 1, 7]


def test_edges_run_from_sources_through_every_centre_to_targets() -> None:
    expected = {(s, c) for s in (0, 1, 2) for c in (3, 4)} | {(c, t) for c in (3, 4) for t in (5, 6)}
    expected |= {(s, c) for s in (7, 8) for c in (9, 10)} | {(c, t) for c in (9, 10) for t in (11, 12)}
    edges = [tuple(edge) for edge in two_graphs().edge_index.t().tolist()]
    assert len(edges) == len(expected)
    assert set(edges) == expected
    both = [tuple(edge) for edge in two_graphs(reverse_edges=True).edge_index.t().tolist()]
    assert len(both) == 2 * len(expected)
    assert set(both) == expected | {(b, a) for a, b in expected}


def test_weights_follow_the_multiplicity_of_the_sender() -> None:
    batch = two_graphs()
    weight = {(int(a), int(b)): float(w) for a, b, w in zip(*batch.edge_index, batch.edge_weight, strict=True)}
    assert weight[7, 9] == weight[7, 10] == 7.0
    assert weight[8, 9] == weight[9, 11] == 1.0
    torch.testing.assert_close(batch.log_weight.exp(), batch.multiplicity.double())


def test_pyg_data_holds_the_same_graphs() -> None:
    batch = CountedTask(num_identifiers=5).batch(3, stream(0, "train"))
    data = batch.to_data()
    data.validate(raise_on_error=True)
    assert data.num_nodes == batch.num_nodes
    assert torch.equal(data.sources, batch.sources)
    assert torch.equal(data.edge_weight, batch.edge_weight)


def test_every_row_is_shuffled_on_its_own() -> None:
    rows = shuffled_rows(stream(0, "train"), 101, 7)
    assert (np.sort(rows, axis=1) == np.arange(7)).all()
    assert len({tuple(row) for row in rows}) > 90


def test_a_graph_without_sources_keeps_its_centres_and_targets() -> None:
    nobody = Sources(*(np.array([each]) for each in (0, 1, 5, 1)))
    batch = lay_out(
        nobody,
        target_identifier=np.array([[0, 1], [1, 0]]),
        answer_label=np.zeros((2, 2), np.int64),
        answer_count=np.zeros((2, 2), np.int64),
        scale=np.array([1, 1]),
        num_centres=1,
        centre_label=8,
        target_label=9,
        reverse_edges=False,
    )
    assert batch.role.tolist() == [SOURCE, CENTRE, TARGET, TARGET, CENTRE, TARGET, TARGET]
    assert batch.batch.tolist() == [0] * 4 + [1] * 3
