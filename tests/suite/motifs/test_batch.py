"""Batches hold the graphs they were asked for, and nothing else."""

import numpy as np
import torch

from mooring.suite.motifs.data import MotifSettings, generate
from mooring.suite.motifs.data.dataset import cached_census, collate

SETTINGS = MotifSettings(num_types=3)


def test_a_batch_is_its_graphs_in_the_order_given():
    census = cached_census(SETTINGS, "mixture", 11, 5)
    batch = collate(census, np.array([7, 2, 7]), SETTINGS.num_types)
    assert batch.num_graphs == 3
    for place, index in enumerate([7, 2, 7]):
        graph = generate(SETTINGS, "mixture", index, 5)
        nodes = torch.nonzero(batch.batch == place).flatten()
        assert torch.equal(batch.x[nodes, :3].argmax(dim=1), torch.from_numpy(graph.types.astype(np.int64)))
        assert torch.equal(batch.x[nodes, 3] > 0, torch.from_numpy(graph.marker))
        edges = batch.edge_index[:, torch.isin(batch.edge_index[0], nodes)] - nodes[0]
        both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
        assert {tuple(edge) for edge in edges.T.tolist()} == {tuple(edge) for edge in both.T.tolist()}
        assert torch.equal(batch.target[place], torch.from_numpy(graph.target))


def test_features_are_types_and_marker_only():
    census = cached_census(SETTINGS, "train", 5, 5)
    batch = collate(census, np.arange(5), SETTINGS.num_types)
    assert batch.x.shape[1] == SETTINGS.num_types + 1
    assert torch.equal(batch.x[:, :3].sum(dim=1), torch.ones(len(batch.x)))
    assert set(batch.x.unique().tolist()) == {0.0, 1.0}
