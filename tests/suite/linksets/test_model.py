from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mooring import zoo
from mooring.suite.linksets import LinkExperiment, LinkNet
from mooring.suite.linksets.data import generate_many, greedy
from mooring.suite.linksets.data.dataset import LinkBatch, collate
from mooring.suite.linksets.experiment import PRESETS
from mooring.suite.linksets.model import Rivals

TINY = PRESETS["tiny"].but(init_std=0.3)
GRAPHS = generate_many(TINY.graphs, "train", 5, seed=0)
MODELS = LinkExperiment.models


def net(memory: str) -> LinkNet:
    torch.manual_seed(0)
    built = LinkExperiment(TINY, memory, seed=0).build()
    assert isinstance(built, LinkNet)
    return built.double()


def graphs(*which: int) -> LinkBatch:
    return widened(collate(GRAPHS, np.array(which), TINY.graphs.sectors))


def widened(batch: LinkBatch) -> LinkBatch:
    changes = {
        field.name: getattr(batch, field.name).double()
        for field in dataclasses.fields(batch)
        if isinstance(getattr(batch, field.name), Tensor) and getattr(batch, field.name).is_floating_point()
    }
    return dataclasses.replace(batch, **changes)


@pytest.mark.parametrize("preset", ["quick", "full"])
@pytest.mark.parametrize("memory", MODELS)
def test_parameters_are_matched_within_five_per_cent(preset: str, memory: str) -> None:
    config = PRESETS[preset]

    expected = zoo.count(LinkExperiment(config, "anchored", seed=0).build())
    assert abs(zoo.count(LinkExperiment(config, memory, seed=0).build()) / expected - 1) < 0.05
    # The rule is needed: without it the model without memory would be far smaller.
    spec = zoo.MemorySpec(channels=config.channels)
    bare = LinkNet(config.graphs, "none", spec, blocks=config.blocks, hidden=config.hidden, waves=config.waves)
    assert zoo.count(bare) / expected < 0.7


@pytest.mark.parametrize("layout", [{}, {"slots": 16, "heads": 4}])
@pytest.mark.parametrize("memory", ["perceiver", "slot-attention"])
def test_a_large_memory_is_made_smaller_and_not_the_node_mlps(memory: str, layout: dict[str, int]) -> None:
    config = PRESETS["full"].but(**layout)
    spec = config.memory.at(config.channels)
    assert zoo.size(memory, spec) > 1.1 * zoo.size("anchored", spec)
    net: Any = LinkExperiment(config, memory, seed=0).build()
    assert net.mlps[0][0].out_features >= config.hidden
    expected = zoo.count(LinkExperiment(config, "anchored", seed=0).build())
    assert abs(zoo.count(net) / expected - 1) < 0.01


def test_ranks_count_heavier_rivals_one_by_one() -> None:
    batch, sectors = graphs(3, 0, 4), TINY.graphs.sectors
    found = Rivals(batch, sectors).heavier(torch.ones_like(batch.weight))
    assert len(batch.weight) > 20
    for end in (0, 1):
        for pair, node in enumerate(batch.pairs[end].tolist()):
            rivals = [
                (weight, int(batch.sector[side, other]))
                for side in (0, 1)
                for other, weight in enumerate(batch.weight.tolist())
                if batch.pairs[side, other] == node and weight > batch.weight[pair]
            ]
            same = [sector for _, sector in rivals if sector == batch.sector[end, pair]]
            assert found[end, pair].tolist() == [len(same), len(rivals)]


def test_a_model_with_exact_ranks_looks_at_them() -> None:
    torch.manual_seed(0)
    model = LinkExperiment(TINY.but(exact_ranks=True), "none", seed=0).build().double()
    batch = graphs(0, 1)
    logits = model(batch)
    # Another pair of the first node becomes heavier: nothing of this pair has changed but its rank.
    lightest = int(batch.weight[: len(graphs(0).weight)].argmin())
    node = batch.pairs[0, lightest]
    (others,) = (batch.pairs[0] == node).nonzero(as_tuple=True)
    rival = next(other for other in others.tolist() if other != lightest)
    lighter = batch.weight.clone()
    lighter[rival] = batch.weight[lightest] - 1
    changed = model(dataclasses.replace(batch, weight=lighter))
    assert changed[lightest] != logits[lightest]
    assert torch.equal(changed[len(graphs(0).weight) :], logits[len(graphs(0).weight) :])
    assert zoo.count(model) - zoo.count(net("none")) == 2 * TINY.channels


def test_features_tell_gains_of_one_parity_apart_linearly() -> None:
    # A score is linear in features, so a line must part rivals of one parity in a band of gains from all others.
    torch.manual_seed(0)
    batch = graphs(0, 1, 2, 3, 4)
    gain, parity = torch.rand(400).double(), torch.randn(400).double().sign()
    many = dataclasses.replace(
        batch,
        gain=gain,
        parity=parity,
        position=torch.zeros(400, 2).double(),
        orientation=torch.zeros(400).double(),
        batch=torch.zeros(400).long(),
    )
    features = net("none").features(many)
    wanted = ((parity > 0) & (gain > 0.4) & (gain < 0.6)).double()
    found = features @ (torch.linalg.pinv(features, rtol=1e-6) @ wanted)
    assert ((found > 0.5) == wanted.bool()).double().mean() > 0.95
    plain = features[:, :4]
    missed = plain @ (torch.linalg.pinv(plain, rtol=1e-6) @ wanted)
    assert ((missed > 0.5) & wanted.bool()).sum() == 0


@pytest.mark.parametrize("memory", MODELS)
def test_which_node_comes_first_does_not_matter(memory: str) -> None:
    batch = graphs(0, 3)
    swapped = dataclasses.replace(batch, pairs=batch.pairs.flip(0), sector=batch.sector.flip(0))
    torch.testing.assert_close(net(memory)(swapped), net(memory)(batch))


def test_swapping_nodes_but_not_their_sectors_matters() -> None:
    batch = graphs(0, 3)
    broken = dataclasses.replace(batch, pairs=batch.pairs.flip(0))
    assert not torch.allclose(net("none")(broken), net("none")(batch), atol=1e-4)


@pytest.mark.parametrize("memory", MODELS)
def test_batch_mates_and_node_order_do_not_matter(memory: str) -> None:
    module = net(memory)
    alone, joined = module(graphs(3)), module(graphs(1, 3, 4))
    start = len(graphs(1).target)
    torch.testing.assert_close(joined[start : start + len(alone)], alone)

    batch = graphs(1, 3)
    order = torch.randperm(len(batch.batch), generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    per_node = {name: getattr(batch, name)[order] for name in ("position", "orientation", "gain", "parity", "batch")}
    shuffled = dataclasses.replace(batch, pairs=place[batch.pairs], **per_node)
    torch.testing.assert_close(module(shuffled), module(batch))


@pytest.mark.parametrize(
    ("memory", "reacts"), [("none", False), ("vn", True), ("cross-attn", True), ("anchored", True)]
)
def test_pairs_hear_of_other_nodes_through_the_memory_only(memory: str, reacts: bool) -> None:
    batch = graphs(3)
    stranger = int(torch.isin(torch.arange(len(batch.batch)), batch.pairs[:, 0], invert=True).nonzero()[0])
    gain = batch.gain.clone()
    gain[stranger] += 0.5
    change = net(memory)(dataclasses.replace(batch, gain=gain))[0] - net(memory)(batch)[0]
    assert (change.abs() > 1e-9) == reacts


@pytest.mark.parametrize(
    ("memory", "counts"), [("vn", False), ("cross-attn", False), ("vn-sum", True), ("anchored", True)]
)
def test_only_some_memories_notice_that_every_node_is_there_twice(memory: str, counts: bool) -> None:
    batch = graphs(3)
    per_node = {
        name: torch.cat([getattr(batch, name)] * 2) for name in ("position", "orientation", "gain", "parity", "batch")
    }
    change = net(memory)(dataclasses.replace(batch, **per_node)) - net(memory)(batch)
    assert (change.abs().max() > 1e-6) == counts


def test_graphs_without_pairs_give_no_logits() -> None:
    batch = graphs(0)
    nothing = torch.zeros(2, 0, dtype=torch.long)
    empty = dataclasses.replace(batch, pairs=nothing, sector=nothing, weight=batch.weight[:0], target=batch.target[:0])
    assert net("anchored")(empty).shape == (0,)


def test_the_only_choice_that_its_rivals_leave_as_it_is_is_the_greedy_one() -> None:
    settings = dataclasses.replace(TINY.graphs, nodes=(40, 50), larger_nodes=(51, 51))
    crowded = generate_many(settings, "train", 2, seed=0)
    batch = collate(crowded, np.array([0, 1]), settings.sectors)
    rivals, room = Rivals(batch, settings.sectors), torch.tensor([settings.per_sector, settings.degree])
    kept, turns = torch.ones_like(batch.weight), 0
    while not torch.equal(kept, after := (rivals.heavier(kept) < room).all(-1).all(0).to(kept.dtype)):
        kept, turns = after, turns + 1
    assert turns > 3
    assert kept.bool().tolist() == np.concatenate([greedy(graph, settings) for graph in crowded]).tolist()


def test_turns_tell_a_pair_which_rivals_were_taken() -> None:
    torch.manual_seed(0)
    model = LinkExperiment(TINY.but(exact_ranks=True, turns=3), "none", seed=0).build().double()
    batch = graphs(0, 1)
    first, second, third = model(batch, every_turn=True)
    assert torch.equal(model(batch), third)
    assert not torch.equal(first, second)
    decoder = model.decoder
    seen: list[Tensor] = []
    decoder.lin_turn.register_forward_hook(lambda _, told, __: seen.append(told[0]))
    model(batch)
    counted = Rivals(batch, TINY.graphs.sectors).heavier(first.sigmoid()).log1p()
    torch.testing.assert_close(seen[0][..., :2], counted)
    torch.testing.assert_close(seen[0][..., 2], (first / 4).tanh().expand(2, -1))
    # One turn is the model with exact ranks, and no turn has anything to be told by.
    once = LinkExperiment(TINY.but(exact_ranks=True), "none", seed=0).build()
    assert once.decoder.lin_turn is None


def test_turns_of_a_graph_do_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    model = LinkExperiment(TINY.but(exact_ranks=True, turns=4), "moored", seed=0).build().double()
    alone = torch.cat([model(graphs(index)) for index in (3, 0, 2)])
    torch.testing.assert_close(model(graphs(3, 0, 2)), alone)
