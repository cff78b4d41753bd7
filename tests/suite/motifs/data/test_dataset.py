"""Packed graphs come back as they were, and batches hold them in order."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from mooring.suite.motifs.data import MotifDataset, MotifSettings, generate, generate_many
from mooring.suite.motifs.data.dataset import cached_census, collate
from mooring.suite.records import Identity

SETTINGS = MotifSettings()


def as_bytes(packed: MotifDataset) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in packed.arrays.items()}


def test_the_bytes_do_not_depend_on_the_number_of_workers():
    # 257 graphs are three chunks, the last one short.
    alone = generate_many(SETTINGS, "jittered", 257, seed=3)
    assert as_bytes(generate_many(SETTINGS, "jittered", 257, seed=3, workers=2)) == as_bytes(alone)
    assert as_bytes(generate_many(SETTINGS, "jittered", 257, seed=4)) != as_bytes(alone)


def test_a_packed_graph_is_the_graph_of_its_index():
    packed = generate_many(SETTINGS, "replicated", 5, seed=3)
    for index in range(5):
        graph = generate(SETTINGS, "replicated", index, seed=3)
        for field in fields(graph):
            assert np.array_equal(getattr(packed[index], field.name), getattr(graph, field.name))


def test_saving_and_loading_changes_nothing(tmp_path):
    packed = generate_many(SETTINGS, "mixture", 7, seed=3)
    identity = Identity("motifs", "", 0, {})
    packed.save(tmp_path / "mixture.npz", identity)
    assert as_bytes(MotifDataset.load(tmp_path / "mixture.npz", identity)) == as_bytes(packed)


def test_a_graph_out_of_range_is_refused():
    packed = generate_many(SETTINGS, "iid", 3, seed=3)
    with pytest.raises(IndexError, match="graph 3 of 3"):
        packed[3]


@pytest.mark.parametrize("arguments", [{"num_graphs": 0}, {"num_graphs": 3, "workers": 0}])
def test_nothing_to_do_or_nobody_to_do_it_is_refused(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        generate_many(SETTINGS, "iid", seed=3, **arguments)


THREE_TYPES = MotifSettings(num_types=3)


def test_a_batch_is_its_graphs_in_the_order_given():
    census = cached_census(THREE_TYPES, "mixture", 11, 5)
    batch = collate(census, np.array([7, 2, 7]), THREE_TYPES.num_types)
    assert batch.num_graphs == 3
    for place, index in enumerate([7, 2, 7]):
        graph = generate(THREE_TYPES, "mixture", index, 5)
        nodes = torch.nonzero(batch.batch == place).flatten()
        assert torch.equal(batch.x[nodes, :3].argmax(dim=1), torch.from_numpy(graph.types.astype(np.int64)))
        assert torch.equal(batch.x[nodes, 3] > 0, torch.from_numpy(graph.marker))
        edges = batch.edge_index[:, torch.isin(batch.edge_index[0], nodes)] - nodes[0]
        both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
        assert {tuple(edge) for edge in edges.T.tolist()} == {tuple(edge) for edge in both.T.tolist()}
        assert torch.equal(batch.target[place], torch.from_numpy(graph.target))


def test_features_are_types_and_marker_only():
    census = cached_census(THREE_TYPES, "train", 5, 5)
    batch = collate(census, np.arange(5), THREE_TYPES.num_types)
    assert batch.x.shape[1] == THREE_TYPES.num_types + 1
    assert torch.equal(batch.x[:, :3].sum(dim=1), torch.ones(len(batch.x)))
    assert set(batch.x.unique().tolist()) == {0.0, 1.0}
