"""Every module counts what one learned backbone names, with one budget."""

from dataclasses import replace

import pytest
import torch

from mooring import zoo
from mooring.suite.motifs import MotifLeaderboardExperiment
from mooring.suite.motifs.data import MOTIF_NAMES, cached_census, collate
from mooring.suite.motifs.experiment import BOARD_TINY as TINY
from mooring.suite.motifs.experiment import SCREEN, learned_backbone
from mooring.suite.train.run import RunRequest, run_one


def build(model: str, config=TINY, seed: int = 3) -> torch.nn.Module:
    torch.manual_seed(seed)
    return MotifLeaderboardExperiment(config, model, seed).build()


def memory_size(model: str) -> int:
    net = build(model, replace(SCREEN, pretrain_steps=0, train_graphs=2000))
    return sum(parameter.numel() for name, parameter in net.named_parameters() if name.startswith("memory."))


@pytest.mark.parametrize("model", [name for name in zoo.names() if name != "none"])
def test_budgets_differ_by_a_tenth_at_most(model: str) -> None:
    assert memory_size(model) == pytest.approx(memory_size("anchored"), rel=0.1)


def test_modules_of_a_seed_share_a_frozen_backbone_and_draw_their_own_numbers() -> None:
    one, other = build("anchored"), build("vn-sum")
    for left, right in zip(one.backbone.parameters(), other.backbone.parameters(), strict=True):
        assert torch.equal(left, right)
        assert not left.requires_grad
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    learned_backbone(TINY, seed=3)
    assert torch.equal(torch.rand(3), expected)


def test_a_backbone_learns_to_name_gadgets() -> None:
    """A linear probe on what it knows of a root tells motifs from distractors better than before it learned."""

    def separation(steps: int) -> float:
        backbone = learned_backbone(replace(TINY, channels=32, pretrain_steps=steps, train_graphs=200), seed=1)
        batch = collate(cached_census(TINY.census, "iid", 90, 1), torch.arange(90).numpy(), TINY.census.num_types)
        roots = batch.planted > 0
        with torch.no_grad():
            h = backbone(batch.x, batch.edge_index)[roots]
        wanted = torch.nn.functional.one_hot(batch.planted[roots], 13).float()
        half = len(h) // 2
        h = torch.cat([h, torch.ones(len(h), 1)], dim=1)
        weight = torch.linalg.lstsq(h[:half], wanted[:half]).solution
        right = (h[half:] @ weight).argmax(1) == wanted[half:].argmax(1)
        return float(right.float().mean())

    assert separation(200) > separation(0) + 0.1


@pytest.mark.parametrize("model", ["none", "anchored", "transformer"])
def test_a_count_reaches_the_head_through_the_module_alone(model: str) -> None:
    net = build(model)
    experiment = MotifLeaderboardExperiment(TINY, model, 3)
    batch = experiment.train_batch(0, 0)
    out = net(batch)
    assert out.shape == (TINY.batch_size, len(MOTIF_NAMES))
    spread = out.std(dim=0).max()
    assert (spread == 0) if model == "none" else (spread > 0)


def test_a_short_run_makes_a_record(tmp_path) -> None:
    record = run_one(RunRequest("motifs-leaderboard", "gmt", 2, "tiny", out=tmp_path))
    assert record.metrics["final"]["jittered/log_mae"] > 0
