"""Packed graphs, their cache, and batches of them turned at random."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from mooring.suite.linksets.data import LinkDataset, LinkSettings, cached, dataset, generate, generate_many
from mooring.suite.linksets.data.dataset import cache_identity, cache_key, collate, turn
from mooring.suite.linksets.data.graph import bearing, candidates, sector_of

SMALL = LinkSettings(nodes=(5, 11), larger_nodes=(13, 17))


def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path) -> None:
    identity = cache_identity(SMALL, "train", 47, 0)
    for workers in (1, 2):
        generate_many(SMALL, "train", 47, seed=0, workers=workers).save(tmp_path / f"{workers}.npz", identity)
    generate_many(SMALL, "train", 47, seed=1).save(tmp_path / "other.npz", identity)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    assert (tmp_path / "1.npz").read_bytes() != (tmp_path / "other.npz").read_bytes()


def test_packed_graphs_come_out_as_they_went_in() -> None:
    packed = generate_many(SMALL, "test", 7, seed=2)
    assert packed.all_optimal
    for index in range(7):
        graph, expected = packed[index], generate(SMALL, "test", index, seed=2)
        for field in dataclasses.fields(expected):
            found, given = np.asarray(getattr(graph, field.name)), np.asarray(getattr(expected, field.name))
            assert np.array_equal(found, given), field.name
            assert found.dtype == given.dtype, field.name
    with pytest.raises(IndexError, match="graph 7 of 7"):
        packed[7]


def test_a_status_that_is_not_optimal_shows() -> None:
    packed = generate_many(SMALL, "test", 3, seed=2)
    assert not LinkDataset({**packed.arrays, "status": np.array([4, 2, 4])}).all_optimal


def test_second_call_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "not" / "there"
    monkeypatch.setenv("MOORING_CACHE", str(folder))
    first = cached(SMALL, "test", 3, seed=0)
    (path,) = (folder / "linksets").glob("*.npz")

    def refuse(*arguments: object, **options: object) -> LinkDataset:
        raise AssertionError("generated again")

    with monkeypatch.context() as patch:
        patch.setattr(dataset, "generate_many", refuse)
        assert np.array_equal(cached(SMALL, "test", 3, seed=0).weight, first.weight)
        with pytest.raises(AssertionError, match="generated again"):
            cached(SMALL, "test", 3, seed=1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    cached(SMALL, "test", 3, seed=0)
    assert path.read_bytes() == whole
    assert not list(path.parent.glob("*.tmp"))


def invert_labels(arrays: dict[str, np.ndarray]) -> None:
    arrays["chosen"] = ~arrays["chosen"]


def swap_axes(arrays: dict[str, np.ndarray]) -> None:
    arrays["pairs"] = arrays["pairs"].T


def with_facts(**changes: object) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        facts = {**json.loads(str(arrays["identity"])), **changes}
        arrays["identity"] = np.array(json.dumps(facts))

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (invert_labels, r"made with data of hash \w{16}…, but this run reads data of hash \w{16}…\. It is made again"),
        (swap_axes, r"made with data of hash"),
        (with_facts(data=None), r"made with data of hash <absent>"),
        (with_facts(seed=1), r"made with seed=1, but this run asks for seed=0"),
        (with_facts(config={}), r"made with version='<absent>', but this run asks for version=1"),
        (with_facts(config=[]), ""),
        (lambda arrays: arrays.pop("identity"), ""),  # written before there was one
    ],
)
def test_a_changed_file_is_made_again(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], object], says: str
) -> None:
    first = cached(SMALL, "test", 3, seed=0, folder=tmp_path)
    (path,) = tmp_path.rglob("*.npz")
    whole = path.read_bytes()
    with np.load(path) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(path, **arrays)
    with pytest.warns(UserWarning, match=says) if says else nullcontext():
        again = cached(SMALL, "test", 3, seed=0, folder=tmp_path)
    assert np.array_equal(again.chosen, first.chosen)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("of", [cache_key, lambda *asked: repr(cache_identity(*asked))])
def test_key_and_identity_change_with_every_setting(of: Callable[..., str]) -> None:
    changes = {"nodes": (5, 12), "larger_nodes": (14, 17), "sectors": 4, "per_sector": 2, "degree": 5}
    changes |= {"reach": 0.9, "spread": 5.0, "decay": 0.8}
    assert set(changes) == {field.name for field in dataclasses.fields(SMALL)}
    keys = {of(dataclasses.replace(SMALL, **{name: value}), "test", 3, 0) for name, value in changes.items()}
    keys |= {of(SMALL, *rest) for rest in (("test", 3, 0), ("train", 3, 0), ("test", 5, 0), ("test", 3, 1))}
    assert len(keys) == len(changes) + 4


def test_nothing_to_generate_is_refused() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        generate_many(SMALL, "train", 0, seed=0)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    generate_many(SMALL, "test", 3, seed=0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("link sets, test" in shown.err) == terminal


def test_one_graph_is_enough() -> None:
    assert len(generate_many(SMALL, "train", 1, seed=0)) == 1


def test_what_is_cached_is_made_by_as_many_workers_as_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def record(*arguments: object, workers: int) -> LinkDataset:
        asked.append((arguments, workers))
        return generate_many(SMALL, "test", 3, seed=0)

    monkeypatch.setattr(dataset, "generate_many", record)
    cached(SMALL, "test", 3, seed=0, workers=5, folder=tmp_path)
    assert asked == [((SMALL, "test", 3, 0), 5)]


def test_of_several_that_want_one_file_one_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, inside = [], threading.Event()
    whole = generate_many(SMALL, "test", 3, seed=0)

    def slow(*arguments: object, workers: int) -> LinkDataset:
        made.append(arguments)
        inside.set()
        time.sleep(0.3)
        return whole

    monkeypatch.setattr(dataset, "generate_many", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cached, SMALL, "test", 3, 0, folder=tmp_path)
        assert inside.wait(10)
        second = pool.submit(cached, SMALL, "test", 3, 0, folder=tmp_path)
        assert np.array_equal(first.result().weight, second.result().weight)
    assert len(made) == 1


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


def test_a_batch_as_pyg_data_has_the_optimal_links(graphs: LinkDataset) -> None:
    batch = collate(graphs, np.arange(3), SETTINGS.sectors)
    data = batch.to_data()
    assert torch.equal(data.edge_index, batch.pairs[:, batch.target == 1])
    for name, expected in {
        "pos": batch.position,
        "batch": batch.batch,
        "gain": batch.gain,
        "parity": batch.parity,
    }.items():
        assert torch.equal(data[name], expected), name
    assert data.num_nodes == len(batch.gain)
