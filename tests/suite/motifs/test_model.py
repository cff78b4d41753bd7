"""What each readout can and cannot see of a graph, whatever its weights."""

import numpy as np
import pytest
import torch

from mooring.suite.motifs import NORMALISED, READOUTS, GINBackbone, MotifNet, ReadoutSpec
from mooring.suite.motifs.data import MotifBatch, MotifDataset, MotifSettings, collate, generate, generate_many
from mooring.suite.motifs.data.graph import union
from mooring.suite.motifs.experiment import PRESETS

SETTINGS = MotifSettings()
SIZES = torch.from_numpy(np.bincount([89, 97, 131, 151]))
TOLERANCE = 1e-4


def network(name: str, channels: int = 20, slots: int = 7) -> MotifNet:
    torch.manual_seed(3)
    spec = ReadoutSpec(channels, slots, heads=2, graph_sizes=SIZES)
    backbone = GINBackbone(SETTINGS.num_types, channels, layers=3)
    return MotifNet(backbone, channels, READOUTS[name].build(spec), num_motifs=6).eval()


def batch_of(*graphs) -> MotifBatch:
    return collate(MotifDataset.pack(graphs), np.arange(len(graphs)), SETTINGS.num_types)


@torch.no_grad()
def replication_change(name: str) -> float:
    base = generate(SETTINGS, "iid", index=3, seed=1)
    once, thrice = network(name)(batch_of(base, union([base] * 3)))
    return float((once - thrice).abs().max())


@pytest.mark.parametrize("name", sorted(NORMALISED))
def test_a_normalised_readout_does_not_notice_disjoint_copies(name):
    assert replication_change(name) < TOLERANCE


@pytest.mark.parametrize("name", sorted(set(READOUTS) - NORMALISED))
def test_the_others_do(name):
    assert replication_change(name) > 10 * TOLERANCE


@pytest.mark.parametrize("name", READOUTS)
@torch.no_grad()
def test_a_prediction_does_not_depend_on_batch_mates(name):
    one, other = (generate(SETTINGS, split, index=0, seed=1) for split in ("iid", "counts"))
    net = network(name)
    assert torch.allclose(net(batch_of(one, other))[:1], net(batch_of(one)), atol=TOLERANCE)


@torch.no_grad()
def test_the_backbone_sees_its_hops_and_no_further():
    census = generate_many(SETTINGS, "iid", 1, seed=1)
    batch = collate(census, np.arange(1), SETTINGS.num_types)
    torch.manual_seed(3)
    backbone = GINBackbone(SETTINGS.num_types, 20, layers=3)
    reach = torch.eye(len(batch.x))
    for _ in range(3):
        reach = reach.index_add(0, batch.edge_index[1], reach[batch.edge_index[0]])
    changed = batch.x.clone()
    changed[0, -1] = 1 - changed[0, -1]
    difference = (backbone(changed, batch.edge_index) - backbone(batch.x, batch.edge_index)).abs().sum(dim=1)
    assert (difference[reach[:, 0] == 0] == 0).all()
    assert (difference[reach[:, 0] > 0] > 0).all()


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_parameters_agree_within_ten_per_cent(preset):
    config = PRESETS[preset]
    spec = ReadoutSpec(config.channels, config.slots, config.heads, SIZES)
    totals = {}
    for name, readout in READOUTS.items():
        backbone = GINBackbone(config.census.num_types, config.channels, config.layers)
        net = MotifNet(backbone, config.channels, readout.build(spec), num_motifs=6)
        totals[name] = sum(parameter.numel() for parameter in net.parameters())
    assert max(totals.values()) < 1.1 * min(totals.values()), totals


@torch.no_grad()
def test_a_log_sum_readout_can_count_exactly():
    # The fair chance of sum pooling, by hand-set weights: one for a marked node and next to nothing for any other.
    pool = READOUTS["sum-log"].build(ReadoutSpec(2, 1, 1, SIZES))
    pool.lift = torch.nn.Identity()
    one = float(torch.tensor(1.0).expm1().log())
    marked = torch.tensor([True, False, True, True, False])
    x = torch.where(marked, one, -30.0).unsqueeze(1).expand(5, 2)
    pooled = pool.after(pool.aggregate(pool.before(x), torch.zeros(5, dtype=torch.long), dim_size=1))
    assert torch.allclose(pooled, torch.tensor(3.0).log1p())


@torch.no_grad()
def test_the_mass_of_the_anchored_readout_goes_on_as_a_line():
    mass = torch.linspace(0, 10, 31).unsqueeze(1).expand(31, 2)
    mapped = network("anchored").memory.aggregate.update.mass_mlp(mass)
    assert mapped.diff(dim=0).abs().max() > 0.01
    assert mapped.diff(n=2, dim=0).abs().max() < 1e-5


@torch.no_grad()
def test_the_anchored_readout_hides_the_content_of_half_the_graphs_in_training_only():
    pool = network("anchored").memory
    graphs = 400
    x, index = torch.randn(3, 20).repeat(graphs, 1), torch.arange(graphs).repeat_interleave(3)
    results = pool.train()(x, index, dim_size=graphs)
    shown = pool.eval()(x, index, dim_size=graphs)
    hidden = (results - shown).abs().amax(dim=1) > TOLERANCE
    assert hidden.float().mean() == pytest.approx(0.5, abs=0.1)
    # What is hidden is the same for all of them: their masses are equal.
    assert torch.allclose(results[hidden], results[hidden][:1].expand(int(hidden.sum()), -1), atol=TOLERANCE)


def test_the_slot_readouts_are_built_as_published():
    spec = ReadoutSpec(20, 7, heads=2, graph_sizes=SIZES)
    anchored, plain = (READOUTS[name].build(spec).aggregate for name in ("anchored", "cross-attn"))
    assert anchored.anchored
    assert not plain.anchored
    mean_size = torch.tensor((89 + 97 + 131 + 151) / 4)
    assert torch.allclose(anchored.update.anchor_logit, mean_size.log())
    for aggregate in (anchored, plain):
        assert (aggregate.slots, aggregate.heads) == (7, 2)
        assert aggregate.write.temperature == 0.35
