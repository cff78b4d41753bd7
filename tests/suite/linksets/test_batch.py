from __future__ import annotations

import numpy as np
import pytest

from mooring.suite.linksets.data import LinkDataset, LinkSettings, generate, generate_many
from mooring.suite.linksets.data.dataset import collate, turn
from mooring.suite.linksets.data.graph import bearing, candidates, sector_of

SETTINGS = LinkSettings(nodes=(5, 17), larger_nodes=(19, 23))


@pytest.fixture(scope="module")
def graphs() -> LinkDataset:
    return generate_many(SETTINGS, "train", 7, seed=0)


def test_joined_graphs_keep_their_pairs_and_answers(graphs: LinkDataset) -> None:
    batch = collate(graphs, np.array([5, 2, 3]), SETTINGS.sectors)
    nodes = pairs = 0
    for place, index in enumerate((5, 2, 3)):
        graph = graphs[index]
        own_nodes, own_pairs = slice(nodes, nodes + graph.num_nodes), slice(pairs, pairs + len(graph.weight))
        assert np.allclose(batch.position[own_nodes], graph.position)
        assert (batch.batch[own_nodes] == place).all()
        assert (batch.pairs[:, own_pairs].numpy() - nodes == graph.pairs).all()
        assert (batch.sector[:, own_pairs].numpy() == graph.sector).all()
        assert np.allclose(batch.weight[own_pairs].exp(), graph.weight, rtol=1e-5)
        assert (batch.target[own_pairs].numpy() == graph.chosen).all()
        nodes, pairs = own_nodes.stop, own_pairs.stop
    assert len(batch.target) == pairs
    assert set(batch.parity.tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("mirrored", [False, True])
def test_turned_graphs_are_the_same_problem(mirrored: bool) -> None:
    graph = generate(SETTINGS, "train", index=3, seed=1)
    size = graph.num_nodes
    position, orientation = turn(graph.position, graph.orientation, np.full(size, 2.3), np.full(size, mirrored))
    assert not np.allclose(position, graph.position, atol=0.1)
    assert (candidates(position, graph.parity, SETTINGS) == graph.pairs).all()
    first, second = graph.pairs
    sector = np.stack(
        [
            sector_of(bearing(position, here, there), orientation[here], SETTINGS.sectors)
            for here, there in ((first, second), (second, first))
        ]
    )
    assert (sector == (SETTINGS.sectors - 1 - graph.sector if mirrored else graph.sector)).all()


def test_training_batches_turn_sectors_with_the_nodes(graphs: LinkDataset) -> None:
    batch = collate(graphs, np.arange(7), SETTINGS.sectors, np.random.default_rng(3))
    plain = collate(graphs, np.arange(7), SETTINGS.sectors)
    position, orientation = batch.position.double().numpy(), batch.orientation.double().numpy()
    here, there = batch.pairs.numpy()
    seen = sector_of(bearing(position, here, there), orientation[here], SETTINGS.sectors)
    assert (seen == batch.sector[0].numpy()).all()
    # Some graphs were mirrored, some were not, and some exchanged their parities.
    changed = np.array([(batch.sector != plain.sector)[:, plain.batch[plain.pairs[0]] == g].any() for g in range(7)])
    assert 0 < changed.sum() < 7
    assert 0 < (batch.parity != plain.parity).float().mean() < 1
    assert (batch.parity[batch.pairs[0]] == -batch.parity[batch.pairs[1]]).all()
